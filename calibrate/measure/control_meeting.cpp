#include <poll.h>

#include <algorithm>
#include <random>
#include <sstream>

#include "calibrate/measure/control_state.h"
#include "calibrate/measure/meeting_file.h"
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
  for (int i = 0; i < 4; ++i) {
    text << std::hex << random();
  }
  return text.str();
}

Socket listen_at_first_free(const std::string& interface, int port) {
  for (int i = 0;; ++i) {
    try {
      return listen_at(interface, port + i);
    } catch (const std::runtime_error&) {
      if (i + 1 == kPortsToTry) {
        throw;
      }
    }
  }
}

}  // namespace

std::string Rendezvous::text() const {
  std::string line = token + " " + std::to_string(port);
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

// Where the launcher has given all ranks a secret. Rank 0 takes the first of kPortsToTry ports that is free.
Rendezvous Control::State::by_secret() const {
  if (place.master_address.empty() && !place.one_machine()) {
    throw InputError(
        "set MASTER_ADDR (and MASTER_PORT) to where rank 0 runs: the ranks are on several machines");
  }
  return {place.secret,
          place.master_port != 0 ? place.master_port : kDefaultPort,
          {place.master_address.empty() ? "127.0.0.1" : place.master_address}};
}

std::string Control::State::file_name() const {
  if (!place.one_machine()) {
    throw InputError(
        "set PACELINE_SECRET to the same random text for all ranks, such as the output of `openssl rand -hex "
        "16`, and MASTER_ADDR to where rank 0 runs: they are on several machines, and its library can't "
        "hand them a secret");
  }
  return place.job;
}

// A host's name may stand for its loopback; others couldn't reach that.
std::string Control::State::interface() const {
  if (place.one_machine()) {
    return "127.0.0.1";
  }
  const std::string named = resolved(place.master_address).value_or("");
  const std::vector<std::string> own = own_addresses();
  return std::ranges::find(own, named) != own.end() ? named : "";
}

void Control::State::meet(const Share& share) {
  if (leads()) {
    listen_for(share);
  } else if (const std::optional<std::string> shared = share("")) {
    join([meeting = Rendezvous::from(*shared)] { return meeting; }, 1);
  } else if (!place.secret.empty()) {
    join([meeting = by_secret()] { return meeting; }, kPortsToTry);
  } else {
    const MeetingFile file(file_name());
    join([&file] { return Rendezvous::from(file.read().value_or("")); }, 1);
  }
}

void Control::State::listen_for(const Share& share) {
  Socket listener = listen_at(interface(), 0);
  Rendezvous meeting{random_token(), port_of(listener), {"127.0.0.1"}};
  if (!place.master_address.empty()) {
    meeting.addresses.push_back(place.master_address);
  }
  for (const std::string& address : own_addresses()) {
    meeting.addresses.push_back(address);
  }
  std::optional<MeetingFile> file;
  if (!share(meeting.text())) {
    if (place.secret.empty()) {
      file.emplace(file_name()).write(meeting.text());
    } else {
      meeting = by_secret();
      listener = listen_at_first_free(interface(), meeting.port);
    }
  }
  welcome_all(listener, meeting.token);
}

// Those who connect are served side by side: who says nothing, or not what a rank says, keeps nobody waiting.
void Control::State::welcome_all(const Socket& listener, const std::string& token) {
  constexpr std::size_t kMostStrangers = 256;
  struct Stranger {
    Socket socket;
    Instant since = Clock::now();
  };
  std::deque<Stranger> strangers;
  const Instant start = Clock::now();
  while (!missing().empty()) {
    std::vector<pollfd> entries{{listener.descriptor(), POLLIN, 0}};
    for (const Stranger& stranger : strangers) {
      entries.push_back({stranger.socket.descriptor(), POLLIN, 0});
    }
    poll(entries.data(), entries.size(), 200);
    if (std::optional<Socket> connection = accept_waiting(listener)) {
      strangers.push_back({std::move(*connection)});
      if (strangers.size() > kMostStrangers) {
        strangers.pop_front();
      }
    }
    std::erase_if(strangers, [&](Stranger& stranger) {
      return seconds_since(stranger.since) > kAnswerTimeout || welcome(stranger.socket, token);
    });
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

std::vector<int> Control::State::missing() const {
  std::vector<int> ranks;
  for (int rank = 1; rank < place.ranks; ++rank) {
    if (!members[rank].socket.open()) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

// Whether the matter is settled: the connection is a member's now, or nobody's.
bool Control::State::welcome(Socket& connection, const std::string& token) {
  try {
    const bool alive = connection.receive_available();
    const std::optional<Frame> hello = connection.next_frame();
    if (!hello) {
      return !alive;
    }
    Reader in(hello->payload);
    const std::string their_token = in.text();
    const int rank = in.get<int>(), ranks = in.get<int>();
    if (hello->message != Message::hello || their_token != token || ranks != place.ranks || rank < 1 ||
        rank >= ranks || members[rank].socket.open()) {
      return true;
    }
    Member& member = members[rank];
    member.host = in.text();
    connection.send(Message::welcome, Writer().text(place.host).bytes());
    connection.trust();
    member.heard = member.stepped = Clock::now();
    member.socket = std::move(connection);
  } catch (const std::runtime_error&) {  // not of this program
  }
  return true;
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
  try {
    rank_0_host = Reader(answer->payload).text();
  } catch (const std::runtime_error&) {
    return false;
  }
  connection.trust();
  rank_0_heard = Clock::now();
  to_rank_0 = std::move(connection);
  return true;
}

void Control::State::join(const std::function<Rendezvous()>& where, int ports) {
  const Instant start = Clock::now();
  Rendezvous meeting;
  while (seconds_since(start) < timeout) {
    meeting = where();
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
  throw std::runtime_error(
      "rank " + std::to_string(place.rank) + " on " + place.host + " cannot reach rank 0" +
      (addresses.empty() ? ", which has not said where it listens"
                         : ", port " + std::to_string(meeting.port) + " of" + addresses));
}

}  // namespace paceline::measure
