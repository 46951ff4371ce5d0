// Numbers and texts as bytes, and frames of bytes over a TCP socket, for the control channel. All processes
// run the same program on the same kind of machine, so numbers travel as they lie in memory.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace paceline::measure {

class Writer {
 public:
  template <class T>
    requires std::is_trivially_copyable_v<T>
  Writer& put(const T& value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Writer& text(const std::string& value) {
    put(static_cast<std::uint64_t>(value.size()));
    bytes_ += value;
    return *this;
  }
  Writer& numbers(const std::vector<double>& values) {
    put(static_cast<std::uint64_t>(values.size()));
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(const std::string& bytes) : bytes_(bytes) {}

  template <class T>
    requires std::is_trivially_copyable_v<T>
  T get() {
    T value;
    std::memcpy(&value, take(sizeof value), sizeof value);
    return value;
  }
  std::string text() {
    const auto size = get<std::uint64_t>();
    return {take(size), size};
  }
  std::vector<double> numbers() {
    const auto size = get<std::uint64_t>();
    if (size > bytes_.size()) {
      throw std::runtime_error("the control channel received a damaged message");
    }
    std::vector<double> values(size);
    const char* from = take(size * sizeof(double));
    if (size > 0) {
      std::memcpy(values.data(), from, size * sizeof(double));
    }
    return values;
  }

 private:
  const char* take(std::size_t size) {
    if (bytes_.size() - at_ < size) {
      throw std::runtime_error("the control channel received a damaged message");
    }
    const char* begin = bytes_.data() + at_;
    at_ += size;
    return begin;
  }

  const std::string& bytes_;
  std::size_t at_ = 0;
};

enum class Message : std::uint8_t { hello, welcome, data, answer, progress, error, stop, goodbye };

struct Frame {
  Message message = Message::hello;
  std::string payload;
};

// A connected TCP socket that carries frames; closes itself. Sending blocks, receiving doesn't. What a
// stranger may send is little; a member of the job may send more.
class Socket {
 public:
  static constexpr std::size_t kLongestFromStranger = 1024, kLongestFromMember = 64 << 20;

  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();

  int descriptor() const { return descriptor_; }
  bool open() const { return descriptor_ >= 0; }
  void close();
  void trust() { longest_ = kLongestFromMember; }

  // False when the other end is gone.
  bool send(Message, const std::string& payload);
  // Takes what has arrived, no more than a frame at its longest at once. False when the other end has closed
  // or the connection broke.
  bool receive_available();
  // The next complete frame of what was taken. Throws std::runtime_error for one that cannot be ours.
  std::optional<Frame> next_frame();
  // Waits for one frame; nullopt after `timeout_s`, when the other end is gone, or is not one of us.
  std::optional<Frame> wait_frame(double timeout_s);

 private:
  int descriptor_ = -1;
  std::size_t longest_ = kLongestFromStranger;  // payload of a frame
  std::string received_;
};

// Listens on the interface of an address (a name or numbers); empty: on all. Port 0: any. Throws
// std::runtime_error.
Socket listen_at(const std::string& address, int port);
int port_of(const Socket&);
// A connection that waits already, if there is one.
std::optional<Socket> accept_waiting(const Socket& listener);
// Not open when nobody answers in time.
Socket connect_to(const std::string& address, int port, double timeout_s);
// IPv4 addresses of this machine that others may reach, without loopback.
std::vector<std::string> own_addresses();
// The same address in numbers; nullopt where it has none.
std::optional<std::string> resolved(const std::string& address);

}  // namespace paceline::measure
