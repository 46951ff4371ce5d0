#include <cstring>
#include <random>
#include <sstream>

#include "calibrate/measure/control_state.h"
#include "core/error.h"

namespace paceline::measure {
namespace {

using Clock = std::chrono::steady_clock;

// Tried in turn where ranks cannot agree on a free port: torchrun's own store sits on MASTER_PORT.
constexpr int kPortsToTry = 8;
constexpr int kDefaultPort = 29431;
constexpr double kAnswerTimeout = 2;

std::string random_token() {
  std::random_device random;
  std::ostringstream text;
  text << std::hex << random() << random();
  return text.str();
}

}  // namespace

std::string Rendezvous::text() const {
  std::string line = (token.empty() ? "-" : token) + " " + std::to_string(port);
  for (const std::string& address : addresses) {
    line += " " + address;
  }
  return line;
}

Rendezvous Rendezvous::from(const std::string& text) {
  std::istringstream in(text);
  Rendezvous rendezvous;
  in >> rendezvous.token >> rendezvous.port;
  for (std::string address; in >> address;) {
    rendezvous.addresses.push_back(address);
  }
  return rendezvous;
}

Rendezvous Control::State::without_sharing() const {
  if (!place.master_address.empty()) {
    return {"-", place.master_port != 0 ? place.master_port : kDefaultPort, {place.master_address}};
  }
  if (place.local_ranks != place.ranks) {
    throw InputError(
        "set MASTER_ADDR (and MASTER_PORT) to where rank 0 runs: the ranks are on several machines");
  }
  return {"-", place.master_port != 0 ? place.master_port : kDefaultPort, {"127.0.0.1"}};
}

void Control::State::meet(const Share& share) {
  if (leads()) {
    listen_for(share);
    return;
  }
  const std::optional<std::string> shared = share("");
  join(shared ? Rendezvous::from(*shared) : without_sharing());
}

void Control::State::listen_for(const Share& share) {
  Socket listener = listen_at(0);
  Rendezvous meeting{random_token(), port_of(listener), {"127.0.0.1"}};
  if (!place.master_address.empty()) {
    meeting.addresses.push_back(place.master_address);
  }
  for (const std::string& address : own_addresses()) {
    meeting.addresses.push_back(address);
  }
  if (!share(meeting.text())) {
    meeting = without_sharing();
    for (int i = 0;; ++i) {
      try {
        listener = listen_at(meeting.port + i);
        break;
      } catch (const std::runtime_error&) {
        if (i + 1 == kPortsToTry) {
          throw;
        }
      }
    }
  }
  const Instant start = Clock::now();
  const auto missing = [&] {
    std::vector<int> ranks;
    for (int rank = 1; rank < place.ranks; ++rank) {
      if (!members[rank].socket.open()) {
        ranks.push_back(rank);
      }
    }
    return ranks;
  };
  while (!missing().empty()) {
    if (std::optional<Socket> connection = accept_within(listener, 0.2)) {
      welcome(std::move(*connection), meeting.token);
    }
    if (seconds_since(start) > timeout) {
      std::string ranks;
      for (const int rank : missing()) {
        ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
      }
      throw std::runtime_error("rank " + ranks + " did not connect to rank 0 on " + place.host + ", port " +
                               std::to_string(port_of(listener)));
    }
  }
}

void Control::State::welcome(Socket connection, const std::string& token) {
  const std::optional<Frame> hello = connection.wait_frame(kAnswerTimeout);
  if (!hello || hello->message != Message::hello) {
    return;
  }
  Reader in(hello->payload);
  const std::string their_token = in.text();
  const int rank = in.get<int>(), ranks = in.get<int>();
  if (their_token != token || ranks != place.ranks || rank < 1 || rank >= ranks ||
      members[rank].socket.open()) {
    return;
  }
  members[rank].host = in.text();
  connection.send(Message::welcome, Writer().text(place.host).bytes());
  members[rank].heard = members[rank].stepped = Clock::now();
  members[rank].socket = std::move(connection);
}

bool Control::State::join_at(const std::string& address, int port, const std::string& token) {
  Socket connection = connect_to(address, port, kAnswerTimeout);
  if (!connection.open()) {
    return false;
  }
  const Writer hello = Writer().text(token).put(place.rank).put(place.ranks).text(place.host);
  if (!connection.send(Message::hello, hello.bytes())) {
    return false;
  }
  const std::optional<Frame> answer = connection.wait_frame(kAnswerTimeout);
  if (!answer || answer->message != Message::welcome) {
    return false;
  }
  rank_0_host = Reader(answer->payload).text();
  rank_0_heard = Clock::now();
  to_rank_0 = std::move(connection);
  return true;
}

void Control::State::join(const Rendezvous& meeting) {
  const Instant start = Clock::now();
  const int ports = meeting.token == "-" ? kPortsToTry : 1;
  while (seconds_since(start) < timeout) {
    for (int port = meeting.port; port < meeting.port + ports; ++port) {
      for (const std::string& address : meeting.addresses) {
        if (join_at(address, port, meeting.token)) {
          return;
        }
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  std::string addresses;
  for (const std::string& address : meeting.addresses) {
    addresses += " " + address;
  }
  throw std::runtime_error("rank " + std::to_string(place.rank) + " on " + place.host +
                           " cannot reach rank 0, port " + std::to_string(meeting.port) + " of" + addresses);
}

}  // namespace paceline::measure
