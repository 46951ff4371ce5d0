// What is wrong with a machine, told from a log of its collectives: the log is simulated under one fault at a time
// (calibrate/validate/faults.h), and each is judged by how well it explains what was measured
// (calibrate/fit/evidence.h).
#pragma once

#include <string>
#include <vector>

#include "calibrate/fit/collective_fit.h"
#include "calibrate/fit/collective_points.h"
#include "calibrate/validate/faults.h"
#include "sim/report/collective_cost.h"

namespace paceline {

// What the machine should take, as it is described.
struct ExpectedPoint {
  CollectiveCost cost;  // what it runs as
  Seconds time;
  CollectiveInterval interval;  // 90 %
  double deviation = 0;         // standard, of ln(measured / time)
  bool impossible = false;      // measured faster than the links allow: explained by nothing
};

struct ExpectedLog {
  std::vector<MeasuredPlace> places;
  std::vector<MeasuredPoint> points;
  std::vector<ExpectedPoint> expected;
  bool nccl_stated = true;
  std::string gpu{};  // that the rows name, as gpu_called does; empty: none, or several
};

// Cost: that of a prediction for each place.
ExpectedLog expected_log(const FitRequest&, const MeasuredPoints&, const MeasuredData&, const Profile&);
// The points that a fit would use, at most four of an octave (their errors are much the same), and of very many evenly
// so many that a diagnosis takes no longer than people wait.
ExpectedLog thinned(const ExpectedLog&);

// One fault, or a healthy machine with another NCCL, in the ways it may show: ln(time with it / time
// expected), by point.
struct Suspect {
  FaultFamily family = FaultFamily::nic;
  std::string name, look;
  bool healthy = false;
  std::vector<std::vector<double>> log_more;
};

// All of faults_of that change a time here; the names of the others to `unseen`. Cost: a simulation of every
// size for each.
std::vector<Suspect> suspects_of(const ExpectedLog&, const FitProgress&, std::vector<std::string>& unseen);

struct Cause {
  std::vector<std::string> names;  // what can't be told apart in this log; none: nothing is wrong
  std::string look;
  double log_odds = 0;           // ln of how much more likely than nothing, what is rare before counted
  Seconds launch{};              // of the program beyond NCCL's own start, where the rows tell of one
  double error = 0;              // exp(mean |ln(measured / predicted)|) - 1, launch counted
  std::vector<double> log_more;  // by point
};

struct Diagnosis {
  std::vector<Cause> ranked;        // the likeliest first; that nothing is wrong among them
  std::vector<std::string> unseen;  // what would not show in these sizes, and can't be told
  const Cause& best() const { return ranked.front(); }
  bool healthy() const { return best().names.empty(); }
};

// "a launch cost of 24 us"; empty: none.
std::string launch_text(const Cause&);

// Whether what a cause leaves, in the mean, is no more than the half of the intervals of 90 %.
bool explains(const ExpectedLog&, const Cause&);

Diagnosis diagnose(const ExpectedLog&, const std::vector<Suspect>&);

}  // namespace paceline
