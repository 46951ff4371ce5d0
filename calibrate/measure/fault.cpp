#include "calibrate/measure/fault.h"

#include <unistd.h>

#include <charconv>
#include <csignal>
#include <optional>

#include "core/error.h"

namespace paceline::measure {

Fault parse_fault(const std::string& text) {
  const InputError error("\"" + text + "\" is not KIND:RANK:ROW with KIND die, hang, freeze or wrong");
  const std::size_t first = text.find(':');
  const std::size_t second = first == std::string::npos ? first : text.find(':', first + 1);
  if (second == std::string::npos) {
    throw error;
  }
  Fault fault;
  const std::optional<Fault::Kind> kind = find_named<Fault::Kind>(text.substr(0, first));
  const char* end = text.data() + text.size();
  const auto rank = std::from_chars(text.data() + first + 1, text.data() + second, fault.rank);
  const auto row = std::from_chars(text.data() + second + 1, end, fault.row);
  if (!kind || rank.ec != std::errc{} || rank.ptr != text.data() + second || row.ec != std::errc{} ||
      row.ptr != end || fault.rank < 0 || fault.row < 0) {
    throw error;
  }
  fault.kind = *kind;
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
