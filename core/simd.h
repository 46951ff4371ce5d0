// PACELINE_VECTORIZED marks a function that is compiled again for AVX2 and AVX-512 and chosen when the program starts,
// by what the processor can (a name of one, as skylake-avx512, would be that one alone). Without fused multiply-add
// (-ffp-contract=off) every version gives the same bits; tests run with and without it.
#pragma once

#if defined(PACELINE_SIMD) && defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)
#define PACELINE_VECTORIZED __attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#else
#define PACELINE_VECTORIZED
#endif

// A helper of a vectorised function must be inlined into every version of it.
#define PACELINE_INLINE inline __attribute__((always_inline))
