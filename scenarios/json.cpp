#include "scenarios/json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/text.h"

namespace paceline {
namespace {

// "line L, column C" of a byte of the text, both from 1.
std::string line_and_column(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte, text.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t newline = before.rfind('\n');
  const std::size_t column = newline == std::string_view::npos ? before.size() + 1 : before.size() - newline;
  return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

// Cut before a character that would not fit whole.
std::string_view cut_utf8(std::string_view text, std::size_t longest) {
  if (text.size() <= longest) {
    return text;
  }
  while (longest > 0 && (static_cast<unsigned char>(text[longest]) & 0xc0) == 0x80) {
    --longest;
  }
  return text.substr(0, longest);
}

std::string one_line(std::string_view text, std::size_t longest) {
  const std::string_view cut = cut_utf8(text, longest);
  std::string line = printable(std::string(cut));
  std::ranges::replace_if(line, [](char c) { return c == '\n' || c == '\t'; }, '?');
  return cut.size() < text.size() ? line + "..." : line;
}

// Builds a Json from the parser's events; the library's parser and this stack do not recurse.
class Builder {
 public:
  // The library's name for the events' types.
  using number_integer_t = std::int64_t;
  using number_unsigned_t = std::uint64_t;
  using number_float_t = double;
  using string_t = std::string;
  using binary_t = nlohmann::json::binary_t;

  explicit Builder(std::string_view text) : text_(text) {}
  Json take() { return std::move(root_); }

  bool null() { return add(Json()); }
  bool boolean(bool v) { return add(Json(v)); }
  bool number_integer(std::int64_t v) { return add(Json(v)); }
  bool number_unsigned(std::uint64_t v) {
    return std::in_range<std::int64_t>(v) ? add(Json(static_cast<std::int64_t>(v))) : add(Json(v));
  }
  // What counts is the number, not how it is written: 1.0 and 1e0 are 1, -0.0 is 0.
  bool number_float(double v, const std::string&) {
    constexpr double kMostExact = 9007199254740992.0;  // 2^53
    const bool whole = std::trunc(v) == v && std::abs(v) <= kMostExact;
    return add(whole ? Json(static_cast<std::int64_t>(v)) : Json(v));
  }
  bool string(std::string& v) { return add(Json(std::move(v))); }
  bool binary(binary_t&) { return false; }
  bool start_object(std::size_t) { return open(Json(Json::Object{})); }
  bool start_array(std::size_t) { return open(Json(Json::Array{})); }
  bool key(std::string& v) {
    std::get<Json::Object>(stack_.back()->value).push_back({std::move(v), Json()});
    return true;
  }
  bool end_object() {
    check_keys(std::get<Json::Object>(stack_.back()->value));
    return close();
  }
  bool end_array() { return close(); }
  bool parse_error(std::size_t byte, const std::string& last, const nlohmann::json::exception& error);

 private:
  bool add(Json&& value) {
    place(std::move(value));
    return true;
  }
  bool open(Json&& value) {
    stack_.push_back(place(std::move(value)));
    if (stack_.size() > kDeepest) {
      throw InputError("expected at most " + std::to_string(kDeepest) +
                           " arrays and objects inside each other, " + "found more",
                       where());
    }
    return true;
  }
  bool close() {
    stack_.pop_back();
    return true;
  }
  // Where the value lives until its container is complete: a container does not grow while a child is open.
  Json* place(Json&& value) {
    if (++values_ > kMostValues) {
      throw InputError("expected at most " + std::to_string(kMostValues) + " values in a file, found more",
                       where());
    }
    if (stack_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (auto* array = std::get_if<Json::Array>(&stack_.back()->value)) {
      return &array->emplace_back(std::move(value));
    }
    Json& member = std::get<Json::Object>(stack_.back()->value).back().value;
    member = std::move(value);
    return &member;
  }
  // The pointer of the innermost open container.
  std::string where() const {
    constexpr std::size_t kLongestPlace = 60;
    std::string pointer_text;
    for (std::size_t i = 0; i + 1 < stack_.size() && pointer_text.size() < kLongestPlace; ++i) {
      const auto* array = stack_[i]->as<Json::Array>();
      pointer_text = array != nullptr ? pointer(pointer_text, array->size() - 1)
                                      : pointer(pointer_text, stack_[i]->as<Json::Object>()->back().key);
    }
    return pointer_text.size() < kLongestPlace ? pointer_text : pointer_text + "/...";
  }
  void check_keys(const Json::Object& object) const {
    std::vector<std::string_view> keys;
    keys.reserve(object.size());
    for (const JsonMember& member : object) {
      keys.push_back(member.key);
    }
    std::ranges::sort(keys);
    if (const auto twice = std::ranges::adjacent_find(keys); twice != keys.end()) {
      throw InputError("expected each key once, found " + in_quotes(*twice) + " twice", where());
    }
  }

  std::string_view text_;
  Json root_;
  std::vector<Json*> stack_;
  std::size_t values_ = 0;
};

// For what people write who know JavaScript, Python or JSON's dialects; `byte` is counted from 1.
std::string cure_at(std::string_view text, std::size_t byte) {
  if (byte == 0 || byte > text.size()) {
    return {};
  }
  const char found = text[byte - 1];
  const std::string_view before = text.substr(0, byte - 1);
  const std::size_t last = before.find_last_not_of(" \t\r\n");
  const char previous = last == std::string_view::npos ? ' ' : before[last];
  if (found == '/' || found == '#') {
    return ": JSON has no comments";
  }
  if (found == '\'') {
    return ": texts are in double quotes";
  }
  if ((found == '}' || found == ']') && previous == ',') {
    return ": remove the comma before it";
  }
  const bool word = is_letter(found) && std::string_view("{[,:").find(previous) != std::string_view::npos;
  return word ? ": keys and texts are in double quotes" : "";
}

bool Builder::parse_error(std::size_t byte, const std::string& last, const nlohmann::json::exception& error) {
  constexpr int kNumberOverflow = 406;
  constexpr std::size_t kShownToken = 40, kShownReason = 200;
  const std::string place = line_and_column(text_, byte == 0 ? 0 : byte - 1);
  if (error.id == kNumberOverflow) {
    throw InputError("expected a number below 1.8e308, found " + one_line(last, kShownToken), place);
  }
  // "[...] parse error at line 1, column 2: syntax error while parsing value - REASON; last read: '...';
  // expected ..."
  std::string_view reason = error.what();
  std::string expected;
  if (const std::size_t dash = reason.find(" - "); dash != std::string_view::npos) {
    reason.remove_prefix(dash + 3);
  }
  // From the end: the token that was read may say anything.
  if (const std::size_t at = reason.rfind("; expected "); at != std::string_view::npos) {
    expected = reason.substr(at + 2);
  }
  reason = reason.substr(0, reason.find("; last read: '"));
  reason = reason.substr(0, reason.find("; expected "));
  throw InputError("malformed JSON: " + one_line(reason, kShownReason) +
                       (expected.empty() ? "" : "; " + one_line(expected, kShownReason)) +
                       cure_at(text_, byte),
                   place);
}

// Files of other kinds, and what the library would let pass.
void check_text(std::string_view text) {
  struct Other {
    std::string_view begin, expected;
  };
  constexpr Other kOthers[] = {
      {"\xff\xfe", "UTF-8, found UTF-16: save it as UTF-8"},
      {"\xfe\xff", "UTF-8, found UTF-16: save it as UTF-8"},
      {std::string_view("{\0", 2), "UTF-8, found UTF-16: save it as UTF-8"},
      {std::string_view("\0{", 2), "UTF-8, found UTF-16: save it as UTF-8"},
      {"\x1f\x8b", "JSON, found a gzip file: unpack it"},
      {"<", "JSON, found XML (a topology that NCCL wrote is a cluster: --cluster FILE.xml)"}};
  for (const Other& other : kOthers) {
    if (text.starts_with(other.begin)) {
      throw InputError("expected " + std::string(other.expected), "line 1, column 1");
    }
  }
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos) {
    throw InputError("expected JSON, found a zero byte", line_and_column(text, zero));
  }
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) {
    throw InputError("expected JSON, found an empty file");
  }
  if (text[first] != '{' && (is_letter(text[first]) || text[first] == '#')) {
    const std::string_view line = text.substr(first, text.find_first_of("\r\n", first) - first);
    static constexpr std::string_view kWords[] = {"true", "false", "null"};
    if (std::ranges::none_of(kWords, [&](std::string_view word) { return line.starts_with(word); })) {
      throw InputError("expected JSON, found text: " + in_quotes(line), line_and_column(text, first));
    }
  }
}

void append_string(std::string& out, const std::string& text) {
  out += '"';
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    const Command command = command_at(text, i);
    if (c == '"' || c == '\\') {
      (out += '\\') += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (command.bytes > 0) {
      out += formatted("\\u%04x", command.code);
    } else {
      out += c;
    }
    i += std::max<std::size_t>(command.bytes, 1);
  }
  out += '"';
}

void append(std::string& out, const Json& json);

struct AppendInLine {
  std::string& out;
  void operator()(std::nullptr_t) const { out += "null"; }
  void operator()(bool v) const { out += v ? "true" : "false"; }
  void operator()(std::int64_t v) const { out += std::to_string(v); }
  void operator()(std::uint64_t v) const { out += std::to_string(v); }
  void operator()(double v) const { out += number_text(v); }
  void operator()(const std::string& v) const { append_string(out, v); }
  void operator()(const Json::Array& v) const {
    out += '[';
    for (std::size_t i = 0; i < v.size(); ++i) {
      out += i == 0 ? "" : ", ";
      append(out, v[i]);
    }
    out += ']';
  }
  void operator()(const Json::Object& v) const {
    out += '{';
    for (std::size_t i = 0; i < v.size(); ++i) {
      out += i == 0 ? "" : ", ";
      append_string(out, v[i].key);
      out += ": ";
      append(out, v[i].value);
    }
    out += '}';
  }
};

void append(std::string& out, const Json& json) { std::visit(AppendInLine{out}, json.value); }

// A rough lower bound of the length in one line; stops counting at `limit`.
std::size_t length_in_line(const Json& json, std::size_t limit) {
  std::size_t length = 4;
  if (const auto* text = json.as<std::string>()) {
    length = text->size() + 2;
  } else if (const auto* array = json.as<Json::Array>()) {
    for (std::size_t i = 0; i < array->size() && length < limit; ++i) {
      length += length_in_line((*array)[i], limit - length);
    }
  } else if (const auto* object = json.as<Json::Object>()) {
    for (std::size_t i = 0; i < object->size() && length < limit; ++i) {
      length += (*object)[i].key.size() + 4;
      length += length < limit ? length_in_line((*object)[i].value, limit - length) : 0;
    }
  }
  return length;
}

void append_pretty(std::string& out, const Json& json, std::size_t indent, std::size_t used) {
  constexpr std::size_t kLine = 118;
  const auto* array = json.as<Json::Array>();
  const auto* object = json.as<Json::Object>();
  if ((array == nullptr && object == nullptr) || used + length_in_line(json, kLine) < kLine) {
    const std::size_t before = out.size();
    append(out, json);
    if ((array == nullptr && object == nullptr) || used + out.size() - before <= kLine) {
      return;
    }
    out.resize(before);
  }
  const std::size_t size = array != nullptr ? array->size() : object->size();
  out += array != nullptr ? '[' : '{';
  for (std::size_t i = 0; i < size; ++i) {
    out += i == 0 ? "\n" : ",\n";
    const std::size_t line = out.size();
    out.append(indent + 2, ' ');
    if (object != nullptr) {
      append_string(out, (*object)[i].key);
      out += ": ";
    }
    append_pretty(out, array != nullptr ? (*array)[i] : (*object)[i].value, indent + 2, out.size() - line);
  }
  (out += '\n').append(indent, ' ');
  out += array != nullptr ? ']' : '}';
}

}  // namespace

const Json* Json::find(std::string_view key) const {
  if (const auto* object = as<Object>()) {
    const auto member = std::ranges::find(*object, key, &JsonMember::key);
    return member == object->end() ? nullptr : &member->value;
  }
  return nullptr;
}

Json parse_json(const std::string& whole) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";  // of UTF-8: some editors begin files with it
  std::string_view text = whole;
  text.remove_prefix(text.starts_with(kMark) ? kMark.size() : 0);
  check_text(text);
  Builder builder(text);
  const PlainLocale plain;  // the library asks for the decimal point
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

std::string to_text(const Json& json) {
  std::string out;
  append_pretty(out, json, 0, 0);
  return out += '\n';
}

std::string to_line(const Json& json) {
  std::string out;
  append(out, json);
  return out;
}

std::string number_text(double value) {
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

std::string in_short(std::string_view text) {
  constexpr std::size_t kShown = 57;  // and three dots
  return one_line(text, kShown);
}

std::string in_quotes(std::string_view text) { return '"' + in_short(text) + '"'; }

std::string shown(const Json& json) {
  if (const auto* text = json.as<std::string>()) {
    return in_quotes(*text);
  }
  if (const auto* array = json.as<Json::Array>()) {
    return array->empty() ? "an empty array" : "an array of " + std::to_string(array->size());
  }
  if (const auto* object = json.as<Json::Object>()) {
    return object->empty() ? "an empty object" : "an object";
  }
  std::string out;
  append(out, json);
  return out;
}

std::string pointer(std::string_view place, std::string_view key) {
  std::string out(place);
  out += '/';
  for (const char c : in_short(key)) {
    out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  }
  return out;
}

std::string pointer(std::string_view place, std::size_t index) {
  return std::string(place) + '/' + std::to_string(index);
}

}  // namespace paceline
