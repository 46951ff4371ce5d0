// CSV: published tables, what calibrate/measure writes, throughput; and what a wrong one answers.
#include <catch2/catch.hpp>

#include "scenarios/collective_table.h"
#include "written_file.h"

using namespace paceline;
using Catch::Contains;

TEST_CASE("the smaller of the times, the columns by name, quotes") {
  const MeasuredData data = import_text(
      "gpus,nodes,gpus_per_node,gpu,inter_link,nccl_version,size_bytes,time_us_out_of_place,busbw_GBps,"
      "time_us_in_place,collective,algo,proto\n"
      "16,2,8,\"A100, 40 GB\",\"16 x \"\"100\"\" "
      "Gb/s\",2.14.3,1073741824,11774,170.99,11700,all_reduce,Ring,LL128\n"
      "16,2,8,\"two\nlines\",x,not stated,2147483648,21287,,,all-gather,,\n");
  INFO(remarks_of(data));
  REQUIRE(data.collectives.size() == 2);
  const CollectiveMeasurement &a = data.collectives[0], &b = data.collectives[1];
  CHECK(a.time.value == 11700e-6);
  CHECK(a.ranks == 16);
  CHECK(a.nodes == 2);
  CHECK(a.nccl == "2.14");
  CHECK(a.algorithm == "RING");
  CHECK(a.protocol == "LL128");
  CHECK(a.table == "run.txt");
  CHECK(b.kind == CollectiveKind::all_gather);
  CHECK(b.nccl.empty());
  CHECK(b.table == "run.txt#2");
  CHECK(b.origin.line == 3);
  CHECK(data.files.at(0).format == "CSV");
}

TEST_CASE("settings in the collective's cell stand where no column says them") {
  const MeasuredData data = import_text(
      "collective,size_bytes,time_us,gpus\n\"all_reduce, NCCL_SOCKET_NTHREADS=3\",8,5.0,8\n", "a.csv");
  CHECK(data.collectives.at(0).socket_threads == 3);
}

TEST_CASE("bus bandwidth alone makes a time, given the ranks") {
  const MeasuredData data = import_text(
      "gpus,size_bytes,busbw_GBps,collective\n8,17179869184,480.0,\"all-reduce, `NCCL_NVLS_ENABLE=0`\"\n"
      "8,17179869184,361.4,all-gather\n,8,1,all_reduce\n");
  REQUIRE(data.collectives.size() == 2);
  CHECK(data.collectives[0].time.value == Approx(17179869184.0 * 1.75 / 480e9));
  CHECK(data.collectives[0].nvls == "off");
  CHECK(data.collectives[1].time.value == Approx(17179869184.0 * 0.875 / 361.4e9));
  CHECK_THAT(remarks_of(data), Contains("4: a bus bandwidth without \"gpus\" makes no time"));
}

TEST_CASE("the tables of scenarios/validation/collectives: ranks from time and bandwidth") {
  const std::string folder = (kSource / "scenarios/validation/collectives/").string();
  const MeasuredData oci = import_file(folder + "a100_40_oci_2node_full.csv");
  REQUIRE(oci.collectives.size() == 31);
  for (const CollectiveMeasurement& one : oci.collectives) {
    CHECK(one.ranks == 16);
  }
  const MeasuredData reduce = import_file(folder + "a100_40_sxm_1node_superbench_reduce.csv");
  CHECK(reduce.collectives.at(0).kind == CollectiveKind::reduce);
  CHECK(reduce.collectives.at(0).ranks == 0);
}

TEST_CASE("wrong rows are remarks with their line") {
  const MeasuredData data = import_text(
      "size_bytes,time_us,gpus\n1024,10.5,8\n2048,fast,8\n4096,12\n0,1,8\n8192,-3,8\n16384,nan,8\n32768,"
      "1e400,8\n"
      "65536,20,eight\n131072,30,8\n");
  REQUIRE(data.collectives.size() == 2);
  CHECK(data.collectives[1].time.value == 30e-6);
  const std::string remarks = remarks_of(data);
  CHECK_THAT(remarks, Contains("3: time_us: expected a number, found \"fast\": the row is left out"));
  CHECK_THAT(remarks, Contains("4: expected 3 cells as in the header, found 2"));
  CHECK_THAT(remarks, Contains("5: size_bytes: expected more than 0"));
  CHECK_THAT(remarks, Contains("6: time_us: expected more than 0, found \"-3\""));
  CHECK_THAT(remarks, Contains("8: time_us: expected a number, found \"1e400\""));
  CHECK_THAT(remarks, Contains("9: gpus: expected a number") || Contains("9: ranks: expected a number"));
}

TEST_CASE("a missing column is named with the nearest that is there") {
  CHECK_THAT(import_error("size_byte,time_us,gpus\n1,2,3\n"),
             Contains("run.txt: line 1: missing column \"size_bytes\" (found \"size_byte\")"));
  CHECK_THAT(import_error("size_bytes,time_usec,gpus\n1,2,3\n"),
             Contains("missing column \"time_us\" (found \"time_usec\")"));
  CHECK_THAT(import_error("throughput,gpu\n1,2\n"), Contains("missing column \"gpus\""));
  CHECK_THAT(import_error("a,b\n1,2\n", "x.csv"), Contains("missing column \"size_bytes\""));
  CHECK_THAT(import_error("size_bytes,time_us,gpus\n"), Contains("no measurement"));
}

TEST_CASE("a quote that is never closed costs its rows, not the memory") {
  std::string text = "size_bytes,time_us,gpu\n1024,10,x\n2048,11,\"open\n";
  for (int i = 0; i < 20'000; ++i) {
    text += "4096,12,x\n";
  }
  const MeasuredData data = import_text(text);
  CHECK_THAT(remarks_of(data), Contains("3: a quote is not closed"));
  CHECK(data.collectives.size() > 10'000);
  CHECK(data.collectives[0].bytes.value == 1024);
}

TEST_CASE("semicolons, a byte order mark, comments and blank lines") {
  const MeasuredData data =
      import_text("\xef\xbb\xbf# measured\n\nsize_bytes;time_us\n1024;10\n\n# more\n2048;11\n");
  REQUIRE(data.collectives.size() == 2);
  CHECK(data.collectives[1].origin.line == 7);
}

TEST_CASE("throughput of training") {
  const MeasuredData data = import_text(
      "model,framework,gpus,nodes,throughput,unit\nResNet-50,PyTorch,8,1,2887.65,img/"
      "s\nLlama,x,8,1,5000,tokens/s\nx,x,8,1,0.9,%\n");
  REQUIRE(data.training.size() == 2);
  CHECK(data.training[0].ranks == 8);
  CHECK(data.training[0].samples_per_second == 2887.65);
  CHECK(data.training[0].table == "run.txt, ResNet-50, PyTorch");
  CHECK(data.training[0].accumulation == 0);
  CHECK(data.training[0].tokens_per_second == 0);
  CHECK(data.training[1].tokens_per_second == 5000);
  CHECK(data.training[1].samples_per_second == 0);
  CHECK_THAT(remarks_of(data), Contains("4: unit: expected samples (images, sequences) or tokens"));
  for (const std::string other :
       {"steps/s", "ms/image", "images/min", "ktokens/s", "images/s per device", "samples/s/GPU"}) {
    const MeasuredData none = import_text("gpus,throughput,unit\n8,360,samples/s\n8,360," + other + "\n");
    CHECK(none.training.size() == 1);
    CHECK_THAT(remarks_of(none), Contains("of all GPUs, found"));
  }
  const MeasuredData tokens = import_text("gpus,tokens_per_s\n8,30000\n16,\n");
  REQUIRE(tokens.training.size() == 1);
  CHECK(tokens.training[0].tokens_per_second == 30000);
  CHECK_THAT(remarks_of(tokens), Contains("3: gpus and throughput: expected more than 0"));
  const MeasuredData both = import_text("gpus,throughput,tokens_per_s\n8,0,30000\n8,,30000\n8,15,30000\n");
  REQUIRE(both.training.size() == 2);
  CHECK(both.training[0].tokens_per_second == 30000);
  CHECK(both.training[0].samples_per_second == 0);
  CHECK(both.training[1].samples_per_second == 15);
  CHECK(both.training[1].tokens_per_second == 0);
  CHECK_THAT(remarks_of(both), Contains("2: gpus and throughput: expected more than 0"));
  const MeasuredData passes = import_text("gpus,GradAccum,throughput\n8,4,100\n");
  REQUIRE(passes.training.size() == 1);
  CHECK(passes.training[0].accumulation == 4);
  CHECK(import_file((kSource / "tests/validation/dlperf_v100.csv").string()).training.size() > 2);
}

TEST_CASE("what calibrate/measure writes: what ran beside something else stays apart") {
  const MeasuredData data = import_text(
      "kind,name,precision,ranks,nodes,gpus_per_node,size_bytes,m,n,k,work_flop,traffic_bytes,time_us,min_us,"
      "max_us,"
      "repeats,condition,backend,library,device,host,driver,clock_mhz,date\n"
      "collective,all_reduce,fp32,8,1,8,1048576,,,,,,33.5,33,40,20,,nccl,2.21.5,H100,h,535,1980,2026-01-01\n"
      "collective,all_reduce,fp32,8,1,8,1048576,,,,,,44.5,33,40,20,beside "
      "gemm,nccl,2.21.5,H100,h,535,1980,2026-01-01\n"
      "collective,all_reduce,fp32,4,1,4,1048576,,,,,,99,90,99,20,,gloo,2.3.1,CPU,h,,,2026-01-01\n"
      "kernel,gemm,bf16,1,1,1,,4096,4096,1024,34359738368,50331648,70.25,70,71,20,,cuda,12.4,H100,h,535,1980,"
      "2026-01-01\n"
      "kernel,gemm,bf16,1,1,1,,4096,4096,1024,34359738368,50331648,85,70,71,20,beside "
      "all_reduce,cuda,12.4,H100,h,,,\n"
      "launch,empty,,1,1,1,,,,,,,2.1,2,3,20,,cuda,12.4,H100,h,,,\nmemory,copy,,1,1,1,,1048576,,,,2097152,3.1,"
      "2,3,20,,cuda,,H100,h,,,\n"
      "step,mlp,fp32,4,2,2,,,,,,,1234.5,1,2,20,,gloo,,CPU,h,,,\nother,x,,1,1,1,,,,,,,1,1,1,1,,,,,,,,\n");
  INFO(remarks_of(data));
  REQUIRE(data.collectives.size() == 2);
  CHECK(data.collectives[0].nccl == "2.21");
  CHECK(data.collectives[0].time.value == 33.5e-6);
  CHECK(data.collectives[1].nccl.empty());
  REQUIRE(data.conditioned.size() == 1);
  CHECK(data.conditioned[0].condition == "beside gemm");
  CHECK(data.conditioned[0].measurement.time.value == 44.5e-6);
  REQUIRE(data.kernels.size() == 3);
  CHECK(data.kernels[0].k == 1024);
  CHECK(data.kernels[0].work.value == 34359738368.0);
  CHECK(data.kernels[0].traffic.value == 50331648);
  CHECK(data.kernels[1].kind == "launch");
  CHECK(data.kernels[2].kind == "memory");
  REQUIRE(data.conditioned_kernels.size() == 1);
  REQUIRE(data.steps.size() == 1);
  CHECK(data.steps[0].nodes == 2);
  CHECK(data.steps[0].time.value == 1234.5e-6);
  CHECK_THAT(
      remarks_of(data),
      Contains("10: kind: expected collective, kernel, launch, memory, step or bucket, found \"other\""));
}
