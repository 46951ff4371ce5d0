#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/error.h"
#include "core/fingerprint.h"
#include "core/minor_version.h"
#include "core/portable_math.h"
#include "core/random.h"
#include "core/time.h"
#include "core/units.h"
#include "core/unknown_name.h"
#include "sim/collective/nccl_words.h"

namespace paceline {
namespace {

using namespace units;

template <class A, class B>
concept Addable = requires(A a, B b) { a + b; };
template <class A, class B>
concept Divisible = requires(A a, B b) { a / b; };

static_assert(Addable<Seconds, Seconds>);
static_assert(!Addable<Seconds, Bytes>);
static_assert(!Addable<Seconds, double>);
static_assert(!Divisible<Bytes, FlopsPerSecond>);
static_assert(!std::is_convertible_v<double, Seconds>);
static_assert(!std::is_convertible_v<Rank, LinkId>);

TEST_CASE("bytes over a rate are seconds, Gb are bits and GB are not GiB") {
  CHECK((25_MiB / 50.0_GBps).value == Approx(26214400 / 50e9));
  CHECK((400.0_Gbps).value == 50e9);
  CHECK((Flops(3.12e14) / 312.0_TFLOPs).value == Approx(1.0));
  CHECK(1_MiB == 1024_KiB);
}

TEST_CASE("the minor version of a log's text is what stands behind its first dot") {
  CHECK(leading_minor("2.22.3+cuda12.4") == 22);
  CHECK(leading_minor("v2.18") == 18);
  for (const char* none : {"", "22", "2.", "2.x", "."}) {
    CHECK(leading_minor(none) == 0);
  }
  CHECK(nearest_nccl("2.4.8") == "2.12");
  CHECK(nearest_nccl("2.22.3") == "2.22");
  CHECK(nearest_nccl("2.31") == "2.30");
}

TEST_CASE("seconds are rounded to the nearest picosecond, ties to even") {
  CHECK(to_sim_time(1.0_us).ps == 1'000'000);
  CHECK(round_to_picoseconds(0.5) == 0);
  CHECK(round_to_picoseconds(1.5) == 2);
  CHECK(round_to_picoseconds(2.5) == 2);
  CHECK(round_to_picoseconds(2.500001) == 3);
  CHECK(round_to_picoseconds(4503599627370495.5) == 4503599627370496);  // 2^52 - 1/2
  CHECK(round_to_picoseconds(2251799813685249.5) == 2251799813685250);  // above the fast path
  CHECK(round_to_picoseconds(1e30) == kNever.ps);
  CHECK(round_to_picoseconds(std::numeric_limits<double>::quiet_NaN()) == kNever.ps);
}

TEST_CASE("the two ways of rounding agree where both apply") {
  for (double x = 0.25; x < 2e15; x = x * 1.37 + 0.13) {
    CHECK(round_small_picoseconds(x) == std::llrint(x));
    CHECK(round_to_picoseconds(x) == std::llrint(x));
  }
}

TEST_CASE("Philox4x32-10 gives the known answers of Random123") {
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) == PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  constexpr std::uint32_t f = 0xffffffff;
  CHECK(philox4x32({f, f, f, f}, {f, f}) == PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("our logarithm, exponential, sine and cosine are libm's to 1e-15") {
  double worst_log = 0, worst_exp = 0, worst_sine = 0;
  for (int i = 1; i < 200'000; ++i) {
    const double x = std::ldexp(1.0 + i * 5e-6, i % 64 - 32), y = (i - 100'000) * 5e-3;
    worst_log =
        std::max(worst_log, std::abs(portable_log(x) - std::log(x)) / std::max(1e-3, std::abs(std::log(x))));
    worst_exp = std::max(worst_exp, std::abs(portable_exp(y) / std::exp(y) - 1));
    const std::uint64_t word = (static_cast<std::uint64_t>(i) * 21'474'837) & 0xffffffff;
    const double angle = 2 * 3.14159265358979323846 * static_cast<double>(word) / 4294967296.0;
    const SineCosine sc = portable_sincos_turn(word);
    worst_sine =
        std::max({worst_sine, std::abs(sc.sine - std::sin(angle)), std::abs(sc.cosine - std::cos(angle))});
  }
  CHECK(worst_log < 1e-15);
  CHECK(worst_exp < 1e-15);
  CHECK(worst_sine < 2e-15);  // the angle itself is rounded
}

TEST_CASE("every distribution has mean 1 and the coefficient of variation that was asked") {
  const Distribution all[] = {
      {DistributionKind::normal, 0.2, {}},      {DistributionKind::lognormal, 0.3, {}},
      {DistributionKind::gamma, 0.3, {}},       {DistributionKind::gamma, 1.5, {}},
      {DistributionKind::exponential, 0.4, {}}, {DistributionKind::empirical, 0, {1, 2, 3, 2}}};
  const double wanted[] = {0.2, 0.3, 0.3, 1.5, 0.4, std::sqrt(0.5) / 2};
  for (std::size_t d = 0; d < 6; ++d) {
    const Sampler sampler(all[d]);
    constexpr int kDraws = 200'000;
    double sum = 0, squares = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double x =
          sampler.draw({7, Stream::per_operation, static_cast<std::uint32_t>(i % 11)}, Rank(i), 3);
      REQUIRE(x >= 0);
      REQUIRE(x <= sampler.largest());
      sum += x;
      squares += x * x;
    }
    const double mean = sum / kDraws, deviation = std::sqrt(squares / kDraws - mean * mean);
    INFO("distribution " << d);
    // Five standard errors of the mean; the deviation's own error is larger for skewed ones.
    CHECK(std::abs(mean - 1) < 5 * wanted[d] / std::sqrt(kDraws));
    CHECK(deviation / wanted[d] == Approx(1).epsilon(0.03));
  }
}

TEST_CASE("a coefficient of variation too small to square is none") {
  for (const DistributionKind kind :
       {DistributionKind::normal, DistributionKind::lognormal, DistributionKind::gamma}) {
    for (const double cv : {1e-300, 1e-160, 1e-12, 1e-9, 1e-6}) {
      const double draw = Sampler({kind, cv, {}}).draw({1, Stream::per_operation, 0}, Rank(1), 2);
      CHECK(std::abs(draw - 1) < 10 * cv + 1e-12);
    }
  }
}

TEST_CASE("a block of draws is the same as the draws one by one") {
  for (const DistributionKind kind :
       {DistributionKind::none, DistributionKind::normal, DistributionKind::lognormal,
        DistributionKind::gamma, DistributionKind::exponential, DistributionKind::empirical}) {
    const Sampler sampler({kind, 0.4, {1, 2, 5}});
    const DrawAddress at{0xdeadbeefcafeULL, Stream::per_operation, 5};
    constexpr std::size_t kStride = 40, kCount = 37;
    std::vector<double> block(4 * kStride);
    sampler.draw_group(at, Rank(1000), kCount, 6, block.data(), kStride);
    for (std::uint32_t lane = 0; lane < 4; ++lane) {
      for (std::size_t i = 0; i < kCount; ++i) {
        CHECK(block[lane * kStride + i] == sampler.draw(at, Rank(1000 + i), 24 + lane));
      }
    }
  }
}

TEST_CASE("draws at different addresses differ, and equal addresses give equal draws") {
  const DrawAddress at{1, Stream::transient, 2};
  const double draw = uniform(at, Rank(3), 4);
  CHECK(draw == uniform(at, Rank(3), 4));
  CHECK(draw != uniform(at, Rank(3), 5));
  CHECK(draw != uniform(at, Rank(4), 4));
  CHECK(draw != uniform({1, Stream::transient, 3}, Rank(3), 4));
  CHECK(draw != uniform({1, Stream::slow_gpu, 2}, Rank(3), 4));
  CHECK(draw != uniform({2, Stream::transient, 2}, Rank(3), 4));
  CHECK(draw != uniform({1ULL << 32 | 1, Stream::transient, 2}, Rank(3), 4));
}

TEST_CASE("a fingerprint does not depend on the order of its facts, but on each of them") {
  const std::uint64_t launch = Fingerprint::subject(1, 2, 3), end = Fingerprint::subject(2, 2, 3);
  Fingerprint a, b, c;
  a.add(launch, 4, SimTime{100});
  a.add(end, 5, SimTime{200});
  b.add(end, 5, SimTime{200});
  b.add(launch, 4, SimTime{100});
  c.add(launch, 5, SimTime{100});
  c.add(end, 4, SimTime{200});
  CHECK(a.value() == b.value());
  CHECK(a.value() != c.value());
  CHECK(to_hex(0x00ab).size() == 16);
  CHECK(to_hex(0x1f) == "000000000000001f");
}

TEST_CASE("an input error is one line with file, place and message, and the nearest known name") {
  CHECK(std::string(InputError("expected a number", "/nodes", "a.json").what()) ==
        "a.json: /nodes: expected a number");
  CHECK(std::string(InputError("boom").at("/cluster").in_file("b.json").what()) == "b.json: /cluster: boom");
  CHECK(std::string(InputError("boom", "/cluster").in_json_file("b.json", "a").what()) ==
        "b.json: /cluster: a: boom");
  CHECK(std::string(InputError("boom", "--set").in_json_file("b.json", "a").what()) == "--set: boom");
  const std::vector<std::string> known{"A100-80GB", "H100", "H200"};
  using Names = std::vector<std::string>;
  CHECK(nearest_names("H10O", known) == Names{"H100"});
  CHECK(nearest_names("h010", known) == Names{"H100"});       // an exchange
  CHECK(nearest_names("A100", known) == Names{"A100-80GB"});  // not H100
  CHECK(nearest_names("H100-80GB", known) == Names{"H100"});  // not A100-80GB
  CHECK(nearest_names("a10080gb", known) == Names{"A100-80GB"});
  CHECK(nearest_names("completely different", known).empty());
  const Names models{"bert_base", "gpt2_large", "gpt2_medium", "gpt2_small", "gpt2_xl"};
  CHECK(nearest_names("gpt2", models) == Names{"gpt2_large", "gpt2_medium", "gpt2_small", "gpt2_xl"});
  CHECK(nearest_names("GPT-2", models) == nearest_names("gpt2", models));
  CHECK(nearest_names("bert-base-uncased", models) == Names{"bert_base"});
  CHECK(nearest_names("h100", Names{"H100", "H100-PCIe", "h100-512"}) == Names{"H100"});
  CHECK(quoted_list(known, "or") == R"("A100-80GB", "H100" or "H200")");
  CHECK(unknown_name("GPU", "h100", known) ==
        "unknown GPU \"h100\"; did you mean \"H100\"? Known: A100-80GB, H100, H200");
  Names tables;
  for (int i = 0; i <= 100; ++i) {
    tables.push_back("table " + std::to_string(i));
  }
  CHECK(unknown_name("table", "tible 7", tables) == "unknown table \"tible 7\"; did you mean \"table 7\"?");
}

}  // namespace
}  // namespace paceline
