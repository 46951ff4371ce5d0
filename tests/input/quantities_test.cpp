// Is every quantity read with its unit, to the last bit, and written so that it reads back as the same?
#include "scenarios/quantities.h"

#include <bit>
#include <catch2/catch.hpp>
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

TEST_CASE("a near unit is suggested, and case alone is nearest") {
  CHECK_THROWS_WITH(bandwidth("200 gb/s"), Catch::Contains("did you mean \"Gb/s\"?"));
  CHECK_THROWS_WITH(bandwidth("200 Gbps"), Catch::Contains("did you mean \"Gb/s\"?"));
  CHECK_THROWS_WITH(bandwidth("200"), Catch::Contains("write for example \"200 GB/s\""));
  CHECK_THROWS_WITH(bandwidth("200GB/s"), Catch::Contains("write \"200 GB/s\""));
}

TEST_CASE("written quantities read back as the same bits") {
  CHECK(to_text(BytesPerSecond(450e9)) == "450 GB/s");
  CHECK(to_text(Seconds(5.4e-6)) == "5.4 us");
  CHECK(to_text(Seconds(0)) == "0 us");
  CHECK(to_text(FlopsPerSecond(15.7e12)) == "15.7 TFLOP/s");
  CHECK(to_text(Bytes(26214400)) == "25 MiB");
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
