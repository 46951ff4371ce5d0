#include <ostream>
#include <string>
#include <string_view>

#include "calibrate/import/findings.h"
#include "calibrate/import/import.h"
#include "calibrate/import/nccl_run.h"

namespace paceline {
namespace {

std::string csv_cell(std::string_view text) {
  if (text.find_first_of(",;\t\"\r\n#") == std::string_view::npos && text == trimmed(text)) {
    return std::string(text);
  }
  std::string quoted = "\"";
  for (const char c : text) {
    quoted += c;
    if (c == '"') {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string stated(int number) { return number > 0 ? std::to_string(number) : std::string(); }

}  // namespace

void write_csv(const MeasuredData& data, std::ostream& out) {
  out << "collective,size_bytes,time_us,ranks,nodes,nccl,algo,proto,channels,nvls,table,"
         "gpu_name,fullest_node,gpus_per_process,wrong_values,socket_threads,sockets_per_thread,not_"
         "modelled\n";
  for (const CollectiveMeasurement& one : data.collectives) {
    out << name_of(one.kind) << ',' << one.bytes.value << ',' << microseconds_text(one.time) << ','
        << stated(one.ranks) << ',' << stated(one.nodes) << ',' << one.nccl << ',' << csv_cell(one.algorithm)
        << ',' << csv_cell(one.protocol) << ',' << stated(one.channels) << ',' << one.nvls << ','
        << csv_cell(one.table) << ',' << csv_cell(one.gpu) << ',' << stated(one.fullest) << ','
        << stated(one.gpus_per_process) << ',' << stated(one.wrong_values ? 1 : 0) << ','
        << stated(one.socket_threads) << ',' << stated(one.sockets_per_thread) << ','
        << csv_cell(one.unmodelled) << '\n';
  }
}

}  // namespace paceline
