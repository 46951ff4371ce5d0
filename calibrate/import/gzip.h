// The other way round: bytes as a gzip file's content. The room that reads gzip files also makes them.
#pragma once

#include <string>
#include <string_view>

namespace paceline {

// Equal bytes give equal bytes: no name, no date.
std::string gzip(std::string_view bytes);

}  // namespace paceline
