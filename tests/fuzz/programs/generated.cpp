// generated FIRST COUNT: makes so many scenarios and runs each in all ways that must agree; prints each one's
// number and fingerprint, which are to be the same whatever compiler built it, or why it is refused: few take years.
// Ends with 1 where some differ.
#include <exception>
#include <iostream>
#include <string>

#include "../agreement.h"
#include "../scenario_maker.h"
#include "core/error.h"

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::cerr << "generated FIRST COUNT\n";
    return 2;
  }
  const std::uint64_t first = std::stoull(argv[1]), count = std::stoull(argv[2]);
  int status = 0;
  for (std::uint64_t number = first; number < first + count; ++number) {
    const std::string scenario = paceline::made_scenario(number);
    std::uint64_t fingerprint = 0;
    try {
      const std::string wrong = paceline::disagreement(scenario, "made.json", &fingerprint);
      std::cout << number << ' ' << std::hex << fingerprint << std::dec << std::endl;
      if (!wrong.empty()) {
        std::cerr << "number " << number << ": not so: " << wrong << '\n' << scenario;
        status = 1;
      }
    } catch (const paceline::InputError& error) {
      std::cout << number << " refused: " << error.what() << std::endl;
    }
  }
  return status;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
