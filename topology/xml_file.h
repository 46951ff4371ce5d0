// An XML file of unknown origin, read with care: bounded in size, depth and number of elements, without
// DOCTYPE (so without entities of its own); what is wrong is an InputError with the file and "line N".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <pugixml.hpp>
#include <string>

namespace paceline {

class XmlFile {
 public:
  // Throws InputError when the text is no such XML file, or its only outer element is not `root`, version 1.
  XmlFile(const std::string& text, const std::string& file, const char* root);

  pugi::xml_node root() const { return root_; }
  [[noreturn]] void fail(pugi::xml_node at, const std::string& message) const;

  // An attribute without the space around it; absent: none, or empty.
  std::optional<std::string> text(pugi::xml_node, const char* name) const;
  // Throw InputError for anything but such a number in the range. whole: decimal, or hexadecimal with 0x.
  std::optional<std::int64_t> whole(pugi::xml_node, const char* name, std::int64_t least,
                                    std::int64_t most) const;
  std::optional<std::int64_t> hexadecimal(pugi::xml_node, const char* name) const;  // 0 or more, 0x or not
  std::optional<double> number(pugi::xml_node, const char* name, double least, double most) const;

  // In quotes, short, and printable whatever the bytes are.
  static std::string quoted(const std::string& text);
  static std::string printable(const std::string& text);

 private:
  std::string place_of(std::ptrdiff_t offset) const;
  void check_size() const;
  void check_tree() const;
  std::int64_t integer(pugi::xml_node, const char* name, const std::string& found, int base,
                       std::int64_t least, std::int64_t most) const;

  const std::string& text_;
  const std::string file_;
  pugi::xml_document document_;
  pugi::xml_node root_;
};

}  // namespace paceline
