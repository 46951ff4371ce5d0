// What a call has to say against its input.
#pragma once

#include <string>

#include "core/error.h"

namespace paceline {

// "" where it takes it. Anything but an InputError passes through.
std::string error_of(const auto& call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

}  // namespace paceline
