// Does every number of a validation set have a range, and is what lies outside refused with its place?
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "calibrate/validate/set_file.h"
#include "core/error.h"
#include "scenarios/schema_writer.h"
#include "tests/input/schema_numbers.h"

namespace paceline {
namespace {

TEST_CASE("every number of a validation set has both bounds, and is refused outside them") {
  const Json schema = schema_of_object<SetFile>();
  const std::vector<SchemaNumber> numbers = numbers_of(schema);
  CHECK(numbers.size() > 15);
  for (const SchemaNumber& number : numbers) {
    CAPTURE(number.place);
    CHECK(has_bounds(number));
    for (const Json& wrong : wrong_values(number)) {
      const Json document = parse_json(to_line(number.document(wrong)));
      CAPTURE(to_line(document));
      SetFile file;
      try {
        read_object(document, file, Spot{});
        FAIL("expected a refusal");
      } catch (const InputError& error) {
        CHECK(error.place() == number.place);
      }
    }
  }
}

}  // namespace
}  // namespace paceline
