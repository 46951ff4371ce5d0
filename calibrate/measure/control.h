// The control channel: a TCP star around rank 0, apart from the library that is measured, so that it still
// works when that library hangs. It gathers results, spreads decisions, and tells which rank died (its
// connection closed), hangs (it is the furthest behind, and did nothing for the timeout) or reported an
// error.
//
// Each process has one watching thread. When something is wrong, rank 0 calls `on_failure` with the message
// on that thread and ends the process with status 1 by _exit, because the main thread may be stuck in a
// library; the other ranks are told and end likewise.
//
// Rank 0 listens on the loopback where all ranks are on one machine, else on the interface of MASTER_ADDR;
// where that names none of its own (or nothing), on all. Until a connection has said the job's secret it may
// send a kilobyte, for two seconds. What is sent is not encrypted.
//
// Cost: two small messages per rank and second; gather and spread: one round trip.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/measure/place.h"

namespace paceline::measure {

// Where rank 0 listens: "TOKEN PORT ADDRESS ADDRESS ...". Who knows the token is of the job.
struct Rendezvous {
  std::string token;
  int port = 0;  // 0: rank 0 takes any free one
  std::vector<std::string> addresses;

  std::string text() const;
  static Rendezvous from(const std::string& text);
};

class Control {
 public:
  using OnFailure = std::function<void(const std::string& message)>;

  // `share` hands rank 0's text to all ranks where the library can (Backend::share_address), else gives
  // nullopt. Then they meet by PACELINE_SECRET at MASTER_ADDR and MASTER_PORT; without a secret, where all
  // are on one machine, by a file that only this user can read. Throws InputError where neither is possible,
  // std::runtime_error where not all ranks come within the timeout (it names those that are missing).
  using Share = std::function<std::optional<std::string>(const std::string&)>;
  Control(const Place&, double timeout_s, const Share& share, OnFailure on_failure);
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  // Rank 0 gets what all ranks gave, by rank; the others get nothing. Main thread.
  std::vector<std::string> gather(const std::string& own);
  // All get what rank 0 gave. Main thread.
  std::string spread(const std::string& of_rank_0);

  // One step done, and what is being done now; all ranks must call it at the same points of the program,
  // since the rank with the fewest steps is the one that the others wait for.
  void progress();
  void now(const std::string& doing);

  // Ends the job because of `rank`: "rank R on HOST WHAT". Rank 0 only. Does not return.
  [[noreturn]] void fail(int rank, const std::string& what);
  // Ends the job because this rank cannot go on. Any rank; does not return.
  [[noreturn]] void error(const std::string& what);
  // Ends the job because of a signal. Does not return.
  [[noreturn]] void stopped(const std::string& why);

  // Orderly end, after which a closed connection means nothing. Main thread, every rank.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace paceline::measure
