// What calibration knows of a machine, as a file: fitted parameters with their uncertainty, what they were
// fitted to, and what the measurements say beyond them.
#pragma once

#include <string>
#include <vector>

#include "sim/training.h"

namespace paceline {

struct ProfileParameter {
  std::string name;  // sim/collective/costs.h
  double value = 0, initial = 0;
  double deviation = 0;  // standard, of ln(value)
  bool fitted = false;   // else the data can't tell, and it keeps its initial value
  // The sizes and ranks of the measurements that bear on it; 0: none.
  Bytes least, most;
  int fewest_ranks = 0, most_ranks = 0;
};

// What a size took where it was measured, against the fitted model: ln(measured / simulated), and the
// standard deviation of its noise.
struct ProfilePoint {
  CollectiveKind kind = CollectiveKind::all_reduce;
  int nodes = 1, gpus_per_node = 1;
  Bytes bytes;
  double log_ratio = 0, noise = 0;
  // What the measurement was told: CollectiveSpec's.
  std::string nccl, algorithm, protocol;
  int channels = 0;
  bool nvls = true;
  int socket_threads = 0, sockets_per_thread = 1;
};

struct ProfileSource {
  std::string file, format;
  std::string hash;  // of the file's bytes, FNV-1a in hexadecimal
  std::int64_t rows = 0;
};

// Training on this machine (calibrate/fit/training_fit.h): what a step of N ranks costs beyond one GPU's.
struct ProfileTraining {
  std::string model, precision;  // what was trained, of that name and with that arithmetic; empty: not told
  std::vector<MeasuredRate> rates;  // of one GPU, by ascending batch; with batch and accumulation
  DelaySpec delays;
  bool delays_fitted = false;      // by rows; else what published runs lose
  std::vector<double> covariance;  // of (ln rate of each batch, delays.per_step in s, delays.per_doubling)
  int most_ranks = 1, most_nodes = 1;
  bool reduction_known = true;  // else predictions lie between during backward and after it
};

// What a kernel costs on this GPU (calibrate/fit/kernel_fit.h); 0: not measured.
struct ProfileRoofline {
  std::string precision;
  double efficiency = 0;
  Seconds half_work;
};
struct ProfileKernel {
  std::string name;
  double efficiency = 0;  // of the memory's bandwidth
};
struct ProfileKernels {
  std::string gpu;
  std::vector<ProfileRoofline> products;
  double memory_efficiency = 0;
  Seconds memory_start;                  // beside the bytes
  std::vector<ProfileKernel> of_kernel;  // those that don't just stream
  Seconds launch;
  double slowdown = 0;  // of kernels beside a collective
};

struct Profile {
  std::string tool, date;    // which program wrote it, and when: "2026-11-21"; empty: a person did
  int model_version = 0;     // that it was fitted with (core/version.h); 0: not told
  std::string cluster;       // what was fitted: a preset's name or a file
  std::string machine;       // its hardware (machine_of); empty: not told, any will do
  std::string network;       // likewise (network_of); empty: also where one node alone was measured
  bool any_machine = false;  // may be used for another; not in the file
  std::vector<ProfileSource> sources;
  CollectiveLibrary library = CollectiveLibrary::nccl;  // this and what follows to `choose`: of the points
  std::string nccl;  // of most measurements, or the newest where none states it; empty: no measurement
  AlgorithmChoice choose = AlgorithmChoice::tuner;
  std::vector<ProfileParameter> parameters;
  std::vector<double> covariance;  // of ln(value) of the fitted ones, row by row
  std::vector<ProfilePoint> points;
  double curvature = 0;  // how much of the model's shape between measured sizes is believed, 0 to 1
  std::vector<ProfileKernels> kernels;    // none or one
  std::vector<ProfileTraining> training;  // likewise
};

// A file with {"parameters": {NAME: "14 us", ...}} alone is a profile too, without uncertainty. Throws
// InputError with file and place; unknown names with the nearest known one.
Profile load_profile(const std::string& path);
Profile parse_profile(const std::string& text, const std::string& file_name);  // the name: of messages
// What tells machines apart whose profiles are not for each other: "h100-sxm, nvswitch"; "efa".
std::string machine_of(const NodeSpec&);
std::string network_of(const NodeSpec&);

// Throws InputError at --profile where it has measured another library than the one that was asked for.
void require_library(CollectiveLibrary asked_for, const Profile&);
// What a user of it must know: that it was fitted with another model version, whose results differ; or "".
std::string remark_on(const Profile&);
// "14 us", "20 GB/s", "0.97": a parameter's value with its unit.
std::string cost_text(const std::string& name, double value);
std::string to_json(const Profile&);

}  // namespace paceline
