#include "calibrate/measure/wire.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

namespace paceline::measure {
namespace {

constexpr std::size_t kFrameHeader = sizeof(std::uint64_t) + sizeof(Message);

int milliseconds(double seconds) { return seconds > 0 ? static_cast<int>(seconds * 1e3) + 1 : 0; }

bool wait_for(int descriptor, short events, double timeout_s) {
  pollfd entry{descriptor, events, 0};
  return poll(&entry, 1, milliseconds(timeout_s)) == 1;
}

// Answers at once, and a peer whose machine vanished is noticed even if nobody writes.
void configure(int descriptor) {
  const int on = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

}  // namespace

Socket::Socket(Socket&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      longest_(other.longest_),
      received_(std::move(other.received_)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(longest_, other.longest_);
  std::swap(received_, other.received_);
  return *this;
}

Socket::~Socket() { close(); }

void Socket::close() {
  if (descriptor_ >= 0) {
    ::close(std::exchange(descriptor_, -1));
  }
}

bool Socket::send(Message message, const std::string& payload) {
  Writer frame;
  frame.put(static_cast<std::uint64_t>(payload.size())).put(message);
  const std::string bytes = frame.bytes() + payload;
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t now = ::send(descriptor_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (now < 0 && errno == EINTR) {
      continue;
    }
    if (now <= 0) {
      return false;
    }
    sent += static_cast<std::size_t>(now);
  }
  return true;
}

bool Socket::receive_available() {
  char buffer[1 << 14];
  while (received_.size() < longest_ + kFrameHeader) {
    const ssize_t size = recv(descriptor_, buffer, sizeof buffer, MSG_DONTWAIT);
    if (size > 0) {
      received_.append(buffer, static_cast<std::size_t>(size));
    } else if (size == 0) {
      return false;
    } else if (errno != EINTR) {
      return errno == EAGAIN || errno == EWOULDBLOCK;
    }
  }
  return true;
}

std::optional<Frame> Socket::next_frame() {
  if (received_.size() < kFrameHeader) {
    return std::nullopt;
  }
  std::uint64_t size = 0;
  std::memcpy(&size, received_.data(), sizeof size);
  const auto message = static_cast<Message>(received_[sizeof size]);
  if (size > longest_ || message > Message::goodbye) {
    throw std::runtime_error("the control channel received something that is not of this program");
  }
  if (received_.size() - kFrameHeader < size) {
    return std::nullopt;
  }
  Frame frame{message, received_.substr(kFrameHeader, size)};
  received_.erase(0, kFrameHeader + size);
  return frame;
}

std::optional<Frame> Socket::wait_frame(double timeout_s) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_s);
  try {
    while (true) {
      if (std::optional<Frame> frame = next_frame()) {
        return frame;
      }
      const double left = std::chrono::duration<double>(end - std::chrono::steady_clock::now()).count();
      if (left <= 0 || !wait_for(descriptor_, POLLIN, left) || !receive_available()) {
        return next_frame();
      }
    }
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

Socket listen_at(const std::string& interface, int port) {
  Socket listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(listener.descriptor(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  if (const std::optional<std::string> numbers = resolved(interface)) {
    inet_pton(AF_INET, numbers->c_str(), &address.sin_addr);
  }
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (bind(listener.descriptor(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener.descriptor(), SOMAXCONN) != 0) {
    throw std::runtime_error("cannot listen on port " + std::to_string(port) +
                             (interface.empty() ? "" : " of " + interface) + ": " + std::strerror(errno));
  }
  return listener;
}

int port_of(const Socket& listener) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  getsockname(listener.descriptor(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

std::optional<Socket> accept_waiting(const Socket& listener) {
  if (!wait_for(listener.descriptor(), POLLIN, 0)) {
    return std::nullopt;
  }
  Socket accepted(accept4(listener.descriptor(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!accepted.open()) {
    return std::nullopt;
  }
  configure(accepted.descriptor());
  return accepted;
}

std::optional<std::string> resolved(const std::string& address) {
  addrinfo wanted{};
  wanted.ai_family = AF_INET;
  addrinfo* found = nullptr;
  if (address.empty() || getaddrinfo(address.c_str(), nullptr, &wanted, &found) != 0 || found == nullptr) {
    return std::nullopt;
  }
  char text[INET_ADDRSTRLEN] = {};
  inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(found->ai_addr)->sin_addr, text, sizeof text);
  freeaddrinfo(found);
  return text;
}

Socket connect_to(const std::string& address, int port, double timeout_s) {
  addrinfo wanted{};
  wanted.ai_family = AF_INET;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.c_str(), std::to_string(port).c_str(), &wanted, &found) != 0 || found == nullptr) {
    return {};
  }
  Socket connection(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int started = connect(connection.descriptor(), found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  int error = 0;
  socklen_t size = sizeof error;
  if (started != 0 &&
      (errno != EINPROGRESS || !wait_for(connection.descriptor(), POLLOUT, timeout_s) ||
       getsockopt(connection.descriptor(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0)) {
    return {};
  }
  fcntl(connection.descriptor(), F_SETFL, fcntl(connection.descriptor(), F_GETFL) & ~O_NONBLOCK);
  configure(connection.descriptor());
  return connection;
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> addresses;
  ifaddrs* interfaces = nullptr;
  if (getifaddrs(&interfaces) != 0) {
    return addresses;
  }
  for (const ifaddrs* i = interfaces; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET || (i->ifa_flags & IFF_LOOPBACK) != 0 ||
        (i->ifa_flags & IFF_UP) == 0) {
      continue;
    }
    char text[INET_ADDRSTRLEN] = {};
    const auto* address = reinterpret_cast<const sockaddr_in*>(i->ifa_addr);
    inet_ntop(AF_INET, &address->sin_addr, text, sizeof text);
    addresses.emplace_back(text);
  }
  freeifaddrs(interfaces);
  return addresses;
}

}  // namespace paceline::measure
