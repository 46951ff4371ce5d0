#include "calibrate/measure/fault.h"

#include <unistd.h>

#include <charconv>
#include <csignal>
#include <vector>

#include "core/error.h"

namespace paceline::measure {

Fault parse_fault(const std::string& text) {
  const InputError error("\"" + text + "\" is not KIND:RANK:ROW with KIND die, hang, freeze or wrong");
  const std::size_t first = text.find(':');
  const std::size_t second = first == std::string::npos ? first : text.find(':', first + 1);
  if (second == std::string::npos) {
    throw error;
  }
  const std::vector<std::string> kinds{"die", "hang", "freeze", "wrong"};
  Fault fault;
  const std::string kind = text.substr(0, first);
  std::size_t index = 0;
  while (index < kinds.size() && kinds[index] != kind) {
    ++index;
  }
  fault.kind = static_cast<Fault::Kind>(index);
  const char* end = text.data() + text.size();
  const auto rank = std::from_chars(text.data() + first + 1, text.data() + second, fault.rank);
  const auto row = std::from_chars(text.data() + second + 1, end, fault.row);
  if (index == kinds.size() || rank.ec != std::errc{} || rank.ptr != text.data() + second ||
      row.ec != std::errc{} || row.ptr != end || fault.rank < 0 || fault.row < 0) {
    throw error;
  }
  return fault;
}

void suffer(const Fault& fault) {
  switch (fault.kind) {
    case Fault::Kind::die:
      kill(getpid(), SIGKILL);
      break;
    case Fault::Kind::hang:
      while (true) {
        pause();
      }
    case Fault::Kind::freeze:
      kill(getpid(), SIGSTOP);
      break;
    case Fault::Kind::wrong:
      break;
  }
}

}  // namespace paceline::measure
