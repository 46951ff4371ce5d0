// Chrome trace events as lines of text.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "core/time.h"
#include "scenarios/json.h"

namespace paceline {

inline std::int64_t nanoseconds(SimTime t) { return t.ps / 1000; }

inline std::string microseconds(std::int64_t ns) {
  const std::string decimals = std::to_string(ns % 1000);
  return std::to_string(ns / 1000) + '.' + std::string(3 - decimals.size(), '0') + decimals;
}

inline std::string in_json(const std::string& text) { return to_line(Json(text)); }

struct TraceTrack {
  std::int64_t process = 0;
  int thread = 0;
};
inline std::string place(TraceTrack track) {
  return ", \"pid\": " + std::to_string(track.process) + ", \"tid\": " + std::to_string(track.thread);
}

struct TraceSlice {
  SimTime start, end;
};

// The events of a file, a line each.
class TraceEvents {
 public:
  explicit TraceEvents(std::string& out) : out_(out) {}

  // `name` and `arguments` are JSON, the latter without its braces.
  void add(const char* category, const std::string& name, TraceTrack track, TraceSlice span,
           const std::string& arguments) {
    const std::int64_t start = nanoseconds(span.start);
    begin("X", category, name, track, microseconds(start));
    out_ += ", \"dur\": " + microseconds(nanoseconds(span.end) - start) + ", \"args\": {" + arguments + "}}";
  }

  void metadata(const char* name, TraceTrack track, const Json::Object& arguments) {
    next_line();
    out_ += "{\"ph\": \"M\", \"name\": \"" + std::string(name) + "\", \"ts\": 0.000" + place(track) +
            ", \"args\": " + to_line(arguments) + '}';
  }

  // The arrow from a launch to its kernel.
  void flow(std::int64_t id, TraceTrack from, SimTime launched, TraceTrack to, SimTime began) {
    begin("s", "ac2g", "\"ac2g\"", from, microseconds(nanoseconds(launched)));
    out_ += ", \"id\": " + std::to_string(id) + '}';
    begin("f", "ac2g", "\"ac2g\"", to, microseconds(nanoseconds(began)));
    out_ += ", \"id\": " + std::to_string(id) + ", \"bp\": \"e\"}";
  }

 private:
  void next_line() { out_ += std::exchange(first_, false) ? "\n  " : ",\n  "; }

  void begin(const char* phase, const char* category, const std::string& name, TraceTrack track,
             const std::string& timestamp) {
    next_line();
    out_ += "{\"ph\": \"";
    out_ += phase;
    out_ += "\", \"cat\": \"";
    out_ += category;
    out_ += "\", \"name\": " + name + place(track) + ", \"ts\": " + timestamp;
  }

  std::string& out_;
  bool first_ = true;
};

}  // namespace paceline
