// Is every quantity read with its unit, to the last bit, and written so that it reads back as the same?
#include "scenarios/quantities.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cctype>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/random.h"

namespace paceline {
namespace {

double bandwidth(const char* text) { return parse_quantity(text, dimension_of(BytesPerSecond{})); }
double seconds(const char* text) { return parse_quantity(text, dimension_of(Seconds{})); }

TEST_CASE("units mean what the field means by them") {
  CHECK(bandwidth("450 GB/s") == 450e9);
  CHECK(bandwidth("400 Gb/s") == 50e9);
  CHECK(bandwidth("1 GiB/s") == 1073741824.0);
  CHECK(bandwidth("2.0 TB/s") == 2e12);
  CHECK(bandwidth("8 b/s") == 1);
  CHECK(seconds("5 us") == 5e-6);
  CHECK(seconds("5.4 us") == 5.4e-6);  // the nearest double to 0.0000054, as the literal
  CHECK(seconds("1e3 ms") == 1);
  CHECK(seconds("1.5E+1 ns") == 1.5e-8);
  CHECK(seconds("1 ps") == 1e-12);
  CHECK(parse_quantity("312 TFLOP/s", dimension_of(FlopsPerSecond{})) == 312e12);
  CHECK(parse_quantity("2 GFLOP", dimension_of(Flops{})) == 2e9);
  CHECK(parse_quantity("367.29 samples/s", dimension_of(SamplesPerSecond{})) == 367.29);
  CHECK(parse_bytes("25 MiB") == Bytes(26214400));
  CHECK(parse_bytes("25 MB") == Bytes(25000000));
  CHECK(parse_bytes("1.5 KiB") == Bytes(1536));
  CHECK(parse_bytes("4611686018427387903 B") == Bytes(4611686018427387903));  // 2^62 - 1, beyond a double
}

TEST_CASE("every unit of a dimension is one of that dimension only") {
  const Dimension* const dimensions[] = {&dimension_of(Bytes{}),          &dimension_of(Seconds{}),
                                         &dimension_of(BytesPerSecond{}), &dimension_of(Flops{}),
                                         &dimension_of(FlopsPerSecond{}), &dimension_of(SamplesPerSecond{})};
  for (const Dimension* own : dimensions) {
    CHECK_NOTHROW(parse_quantity(own->example, *own));
    for (const Unit& unit : own->units) {
      const std::string text = "1 " + std::string(unit.name);
      CHECK(parse_quantity(text, *own) == Approx(std::pow(10.0, unit.exponent) * unit.binary));
      for (const Dimension* other : dimensions) {
        if (other != own) {
          CHECK_THROWS_WITH(parse_quantity(text, *other),
                            Catch::Contains("which is " + std::string(own->noun)));
        }
      }
    }
  }
}

TEST_CASE("what is no number with a unit is refused") {
  for (const char* text : {"",
                           " ",
                           "5",
                           "5us",
                           " 5 us",
                           "5 us ",
                           "5  us",
                           "five us",
                           "+5 us",
                           ".5 us",
                           "5. us",
                           "5e us",
                           "nan us",
                           "inf us",
                           "-inf us",
                           "0x5 us",
                           "1,5 us",
                           "1_000 us",
                           "5 µs",
                           "5 US",
                           "--5 us",
                           "1e400 s",
                           "1e999999999999999999 s",
                           "1e-400 s"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(seconds(text), InputError);
  }
  CHECK_THROWS_AS(parse_bytes("1e30 B"), InputError);
  CHECK_THROWS_AS(parse_bytes("9223372036854775808 B"), InputError);
  CHECK_THROWS_AS(parse_bytes("99999999999 TiB"), InputError);
}

TEST_CASE("a unit that is written otherwise is told in ours, and never as another quantity") {
  struct Wrong {
    const char* text;
    const Dimension& wanted;
    const char* proposal;  // all that is proposed
  };
  const Dimension &rate = dimension_of(BytesPerSecond{}), &size = dimension_of(Bytes{}),
                  &time = dimension_of(Seconds{}), &compute = dimension_of(FlopsPerSecond{});
  const Wrong table[] = {
      {"400 Gbit/s", rate, R"(; write "400 Gb/s" (10^9 bits a second))"},
      {"400 gbit/s", rate, R"(; write "400 Gb/s" (10^9 bits a second))"},
      {"400 Gbits/sec", rate, R"(; write "400 Gb/s" (10^9 bits a second))"},
      {"400 gigabit/s", rate, R"(; write "400 Gb/s" (10^9 bits a second))"},
      {"200 Gbps", rate, R"(; write "200 Gb/s" (10^9 bits a second))"},
      {"200 gbps", rate, R"(; write "200 Gb/s" (10^9 bits a second))"},
      {"100 GbE", rate, R"(; write "100 Gb/s" (10^9 bits a second))"},
      {"400 Gb", rate, R"(; write "400 Gb/s" (10^9 bits a second))"},
      {"50 GBps", rate, R"(; write "50 GB/s" (10^9 bytes a second))"},
      {"50 GByte/s", rate, R"(; write "50 GB/s" (10^9 bytes a second))"},
      {"50 GB", rate, R"(, which is a size; write "50 GB/s" (10^9 bytes a second))"},
      {"50 GiBps", rate, R"(; write "50 GiB/s" (2^30 bytes a second))"},
      {"200 gb/s", rate, R"(; write "200 Gb/s" (10^9 bits a second) or "200 GB/s" (10^9 bytes a second))"},
      {"200 GBPS", rate, R"(; write "200 Gb/s" (10^9 bits a second) or "200 GB/s" (10^9 bytes a second))"},
      {"200 G", rate, R"(; write "200 Gb/s" (10^9 bits a second) or "200 GB/s" (10^9 bytes a second))"},
      {"1 Gib/s", rate, R"(: unknown unit "Gib/s"; the units are TB/s, GB/s)"},
      {"64 KB", size, R"(; write "64 kB" (10^3 bytes) or "64 KiB" (2^10 bytes))"},
      {"25 M", size, R"(; write "25 MB" (10^6 bytes) or "25 MiB" (2^20 bytes))"},
      {"25 Mb", size,
       R"(; write "3.125 MB" (if bits are meant) or "25 MB" (10^6 bytes) or "25 MiB" (2^20 bytes))"},
      {"25 mebibyte", size, R"(; write "25 MiB" (2^20 bytes))"},
      {"25 megabit", size, R"(; write "3.125 MB" (if bits are meant))"},
      {"25 MiB/s", size, ", which is a bandwidth"},
      {"5 \u00b5s", time, R"(; write "5 us")"},
      {"5 \u03bcs", time, R"(; write "5 us")"},
      {"5 usec", time, R"(; write "5 us")"},
      {"5 milliseconds", time, R"(; write "5 ms")"},
      {"5 Ms", time, R"(: unknown unit "Ms"; the units are s, ms, us, ns or ps)"},
      {"5 MS", time, R"(: unknown unit "MS"; the units are s, ms, us, ns or ps)"},
      {"5 m", time, R"(: unknown unit "m"; the units are s, ms, us, ns or ps)"},
      {"2 min", time, R"(; write "120 s")"},
      {"312 TFLOPS", compute, R"(; write "312 TFLOP/s")"},
      {"312 teraflops", compute, R"(; write "312 TFLOP/s")"},
      {"312 TFLOP", compute, R"(, which is an amount of work; write "312 TFLOP/s")"},
      {"400 img/sec", dimension_of(SamplesPerSecond{}), R"(; write "400 samples/s")"},
      {"400 sequences/s", dimension_of(SamplesPerSecond{}), R"(; write "400 samples/s")"},
      {"1.5k imgs/s", dimension_of(SamplesPerSecond{}), R"(; write "1500 samples/s")"},
      {"400 tokens/s", dimension_of(SamplesPerSecond{}),
       R"(: unknown unit "tokens/s"; the units are samples/s)"},
      {"2 GFLOPs", dimension_of(Flops{}), R"(; write "2 GFLOP")"},
      {"25  MiB ", size, R"(; write "25 MiB")"},
      {"200", rate, ", without a unit; the units are TB/s, GB/s"},
      {"200GB/s", rate, R"(write "200 GB/s")"}};
  for (const Wrong& wrong : table) {
    CAPTURE(wrong.text);
    CHECK_THROWS_WITH(parse_quantity(wrong.text, wrong.wanted), Catch::Contains(wrong.proposal));
  }
}

TEST_CASE("what is proposed for a unit is the same quantity, or one of two that are told apart") {
  const auto message = [](const std::string& text, const Dimension& wanted) -> std::string {
    try {
      parse_quantity(text, wanted);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  const std::string prefixes[] = {"", "k", "K", "m", "M", "g", "G", "t", "T", "Ki", "Mi", "Gi", "Ti"};
  for (const std::string& prefix : prefixes) {
    for (const char* unit : {"bit/s", "bits/s", "bps", "b", "bit/sec"}) {
      const std::string said = message("8 " + prefix + unit, dimension_of(BytesPerSecond{}));
      CAPTURE(prefix, unit, said);
      const bool small = prefix.empty() || std::islower(static_cast<unsigned char>(prefix[0])) != 0;
      const bool either = small && std::string(unit) == "b";  // "gb": bits or bytes?
      CHECK((either || said.find("B/s\" (") == std::string::npos));
    }
    for (const char* unit : {"Byte/s", "bytes/s", "Bps", "byte/sec"}) {
      const std::string said = message("8 " + prefix + unit, dimension_of(BytesPerSecond{}));
      CAPTURE(prefix, unit, said);
      CHECK(said.find("b/s\" (") == std::string::npos);
      CHECK(said.find(prefix.ends_with('i') ? " 10^" : "(2^") == std::string::npos);
    }
  }
}

TEST_CASE("written quantities read back as the same bits") {
  CHECK(to_text(BytesPerSecond(450e9)) == "450 GB/s");
  CHECK(to_text(Seconds(5.4e-6)) == "5.4 us");
  CHECK(to_text(Seconds(0)) == "0 us");
  CHECK(to_text(FlopsPerSecond(15.7e12)) == "15.7 TFLOP/s");
  CHECK(to_text(Bytes(26214400)) == "25 MiB");
  CHECK(to_text(Bytes(13107200)) == "12.5 MiB");
  CHECK(to_text(Bytes(1310720)) == "1.25 MiB");
  CHECK(to_text(Bytes(1081344)) == "1056 KiB");  // not 1.03125 MiB
  CHECK(to_text(Bytes(1'000'000'001)) == "1000000001 B");
  std::uint32_t draws = 0;
  const auto word = [&] {
    const PhiloxBlock block = philox4x32({draws++, 0, 0, 0}, {1, 2});
    return std::uint64_t{block[0]} << 32 | block[1];
  };
  for (int i = 0; i < 20'000; ++i) {
    const double value = std::abs(std::bit_cast<double>(word()));
    if (value > 1e-290 && value < 1e290) {
      CHECK(parse_quantity(to_text(Seconds(value)), dimension_of(Seconds{})) == value);
      CHECK(parse_quantity(to_text(BytesPerSecond(value)), dimension_of(BytesPerSecond{})) == value);
      CHECK(parse_quantity(to_text(FlopsPerSecond(value)), dimension_of(FlopsPerSecond{})) == value);
    }
    const Bytes bytes(static_cast<std::int64_t>(word() >> (2 + word() % 60)));
    CHECK(parse_bytes(to_text(bytes)) == bytes);
  }
  for (const double value : {1.0, 0.1, 1.0 / 3, 999.9999, 1000.0, 1e-12, 123456789.125, 1e22, 5e-324}) {
    CHECK(parse_quantity(to_text(Seconds(value)), dimension_of(Seconds{})) == value);
  }
}

}  // namespace
}  // namespace paceline
