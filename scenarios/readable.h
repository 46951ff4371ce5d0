// Numbers as people read them; for pages only, as digits are lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/units.h"

namespace paceline {

std::string readable_time(Seconds);      // "371.2 ms"
std::string readable_duration(Seconds);  // "3.090 h", "54.00 d"
std::string readable_size(Bytes);
std::string readable_rate(BytesPerSecond);                  // "25.0 GB/s"
std::string readable_count(double);                         // "11,035", "367.3"
std::string readable_large(double);                         // "25.6 M"
std::string plural(std::int64_t, const std::string& noun);  // "1 node", "2 nodes"
std::string with_spaces(std::string_view name);             // "fat tree" of "fat_tree"
std::string fixed(double, int decimals);
std::string padded(const std::string&, std::size_t width);        // on the left
std::string padded_right(const std::string&, std::size_t width);  // and never without a space after it

// A line of a page: what it is about, empty where the line before says so, and what it says.
std::string row(const std::string& label, const std::string& text);

// Rows in columns as wide as their widest cell, the first `left` ones left-aligned, the others right-aligned. All
// rows are as long.
using Cells = std::vector<std::string>;
std::string aligned(const std::vector<Cells>& rows, std::size_t left = 0);

}  // namespace paceline
