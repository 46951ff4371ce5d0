#include "topology/xml_file.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <sstream>

#include "core/error.h"
#include "core/text.h"
#include "topology/nccl_xml.h"

namespace paceline {
namespace {

constexpr std::ptrdiff_t kMostElements = 500'000, kMostAttributes = 2'000'000;
constexpr std::size_t kLongestShown = 60;

std::string stripped(const std::string& text) {
  constexpr const char* kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

bool has_hex_prefix(const std::string& text) { return text.starts_with("0x") || text.starts_with("0X"); }

}  // namespace

std::string XmlFile::printable(const std::string& text) {
  std::string shown = text.substr(0, kLongestShown);
  std::ranges::replace_if(shown, [](char c) { return c < ' ' || c > '~'; }, '?');
  return text.size() > kLongestShown ? shown + "..." : shown;
}

std::string XmlFile::quoted(const std::string& text) { return '"' + printable(text) + '"'; }

std::string XmlFile::place_of(std::ptrdiff_t offset) const {
  const auto end = text_.begin() + std::clamp<std::ptrdiff_t>(offset, 0, std::ssize(text_));
  return "line " + std::to_string(1 + std::count(text_.begin(), end, '\n'));
}

void XmlFile::fail(pugi::xml_node at, const std::string& message) const {
  throw InputError(message, place_of(at.offset_debug()), file_);
}

void XmlFile::check_size() const {
  if (text_.size() > kLargestXml) {
    throw InputError(
        "expected at most " + std::to_string(kLargestXml) + " bytes, found " + std::to_string(text_.size()),
        "", file_);
  }
  if (const std::size_t nul = text_.find('\0'); nul != std::string::npos) {
    throw InputError("expected text, found a byte 0", place_of(static_cast<std::ptrdiff_t>(nul)), file_);
  }
  const auto few = [&](char mark, const char* what, std::ptrdiff_t most) {
    if (std::ranges::count(text_, mark) > most) {
      throw InputError("expected at most " + std::to_string(most) + " " + what + ", found more", "", file_);
    }
  };
  few('<', "elements", kMostElements);
  few('=', "attributes", kMostAttributes);
}

// Step by step, as the depth is not yet known to be small.
void XmlFile::check_tree() const {
  int depth = 0;
  pugi::xml_node at = document_;
  while (true) {
    if (at.type() == pugi::node_doctype) {
      fail(at, "expected no DOCTYPE, found one");
    }
    if (at.first_child()) {
      at = at.first_child();
      if (++depth > kDeepestXml) {
        fail(at,
             "expected at most " + std::to_string(kDeepestXml) + " elements inside each other, found more");
      }
      continue;
    }
    while (at && !at.next_sibling()) {
      at = at.parent();
      --depth;
    }
    if (!at) {
      return;
    }
    at = at.next_sibling();
  }
}

XmlFile::XmlFile(const std::string& text, const std::string& file, const char* root)
    : text_(text), file_(file) {
  check_size();
  const pugi::xml_parse_result result = document_.load_buffer(
      text.data(), text.size(), pugi::parse_default | pugi::parse_doctype, pugi::encoding_utf8);
  if (!result) {
    throw InputError("expected XML, found this: " + std::string(result.description()),
                     place_of(result.offset), file_);
  }
  check_tree();
  root_ = document_.document_element();
  if (std::strcmp(root_.name(), root) != 0) {
    fail(root_, std::string("expected the element <") + root + ">, found <" + printable(root_.name()) + ">");
  }
  for (pugi::xml_node other = root_.next_sibling(); other; other = other.next_sibling()) {
    if (other.type() == pugi::node_element) {
      fail(other,
           std::string("expected nothing after </") + root + ">, found <" + printable(other.name()) + ">");
    }
  }
  if (const auto version = whole(root_, "version", INT64_MIN, INT64_MAX); version && *version != 1) {
    fail(root_, "expected version 1 of the format, found " + std::to_string(*version));
  }
}

std::optional<std::string> XmlFile::text(pugi::xml_node node, const char* name) const {
  std::string value = stripped(node.attribute(name).value());
  return value.empty() ? std::nullopt : std::optional(std::move(value));
}

std::int64_t XmlFile::integer(pugi::xml_node node, const char* name, const std::string& found, int base,
                              std::int64_t least, std::int64_t most) const {
  const bool hex = has_hex_prefix(found);
  const char* end = found.data() + found.size();
  std::int64_t value = 0;
  const auto result = std::from_chars(found.data() + (hex ? 2 : 0), end, value, hex ? 16 : base);
  if (result.ec != std::errc() || result.ptr != end || value < least || value > most ||
      (hex && found[2] == '-')) {
    const bool any = least == INT64_MIN;
    fail(node, std::string("expected a whole number ") +
                   (any ? "" : "from " + std::to_string(least) + " to " + std::to_string(most) + " ") +
                   "as " + name + " of <" + printable(node.name()) + ">, found " + quoted(found));
  }
  return value;
}

std::optional<std::int64_t> XmlFile::whole(pugi::xml_node node, const char* name, std::int64_t least,
                                           std::int64_t most) const {
  const std::optional<std::string> found = text(node, name);
  return found ? std::optional(integer(node, name, *found, 10, least, most)) : std::nullopt;
}

std::optional<std::int64_t> XmlFile::hexadecimal(pugi::xml_node node, const char* name) const {
  const std::optional<std::string> found = text(node, name);
  return found ? std::optional(integer(node, name, *found, 16, 0, INT64_MAX)) : std::nullopt;
}

std::optional<double> XmlFile::number(pugi::xml_node node, const char* name, double least,
                                      double most) const {
  const std::optional<std::string> found = text(node, name);
  if (!found) {
    return std::nullopt;
  }
  const std::optional<double> value = number_in<double>(*found);
  if (!value || !(*value >= least && *value <= most)) {
    std::ostringstream range;
    range << "from " << least << " to " << most;
    fail(node, "expected a number " + range.str() + " as " + name + " of <" + printable(node.name()) +
                   ">, found " + quoted(*found));
  }
  return value;
}

}  // namespace paceline
