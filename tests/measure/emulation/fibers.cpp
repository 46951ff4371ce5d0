#include <ucontext.h>

#include <chrono>
#include <random>
#include <vector>

#include "kernels/cuda/device_language.cuh"

namespace emulation {

uint3 thread, block;
dim3 threads_of_block, blocks_of_grid;

namespace {

constexpr std::size_t kStack = 64 * 1024;

struct Fiber {
  ucontext_t context{};
  std::vector<char> stack = std::vector<char>(kStack);
  uint3 index{};
  bool done = false;
  bool waits = false;  // for the block, not only for its warp
  float shown = 0;     // to the other lanes
};
struct Warp {
  std::vector<std::size_t> lanes;  // still running
  bool waits = false;              // for the rest of the block
};

ucontext_t scheduler;
std::vector<Fiber> fibers;
std::size_t current;
const std::function<void()>* body;
std::mt19937 order_of_turns(1);

void enter() {
  (*body)();
  fibers[current].done = true;
}

void begin(Fiber& fiber, uint3 index) {
  fiber.index = index;
  fiber.done = false;
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.data();
  fiber.context.uc_stack.ss_size = fiber.stack.size();
  fiber.context.uc_link = &scheduler;
  makecontext(&fiber.context, enter, 0);
}

// Each lane up to its next meeting point.
void advance(Warp& warp) {
  warp.waits = false;
  std::shuffle(warp.lanes.begin(), warp.lanes.end(), order_of_turns);
  for (const std::size_t lane : warp.lanes) {
    current = lane;
    thread = fibers[lane].index;
    swapcontext(&scheduler, &fibers[lane].context);
    warp.waits = warp.waits || (fibers[lane].waits && !fibers[lane].done);
  }
  std::erase_if(warp.lanes, [](std::size_t lane) { return fibers[lane].done; });
}

void run_block(std::size_t threads) {
  std::vector<Warp> warps((threads + 31) / 32);
  for (std::size_t i = 0; i < threads; ++i) {
    const auto x = static_cast<unsigned>(i);
    begin(fibers[i], {x % threads_of_block.x, x / threads_of_block.x, 0});
    warps[i / 32].lanes.push_back(i);
  }
  while (!warps.empty()) {
    const auto waiting =
        std::partition(warps.begin(), warps.end(), [](const Warp& each) { return !each.waits; });
    const auto ready = static_cast<std::size_t>(waiting - warps.begin());
    if (ready == 0) {  // all have come
      for (Warp& warp : warps) {
        warp.waits = false;
      }
      continue;
    }
    Warp& warp = warps[order_of_turns() % ready];
    for (auto left = order_of_turns() % 32; !warp.waits && !warp.lanes.empty();
         --left) {  // it may run far ahead
      advance(warp);
      if (left == 0) {
        break;
      }
    }
    std::erase_if(warps, [](const Warp& each) { return each.lanes.empty(); });
  }
}

}  // namespace

void run(paceline::cuda::Grid grid, const std::function<void()>& kernel) {
  threads_of_block = dim3(grid.columns, grid.rows);
  blocks_of_grid = dim3(grid.blocks);
  body = &kernel;
  const std::size_t threads = static_cast<std::size_t>(grid.columns) * grid.rows;
  if (fibers.size() < threads) {
    fibers.resize(threads);
  }
  for (unsigned x = 0; x < grid.blocks; ++x) {
    block = {x, 0, 0};
    run_block(threads);
  }
}

void meet_in_block() {
  fibers[current].waits = true;
  swapcontext(&fibers[current].context, &scheduler);
}

float from_lane(float value, int distance) {
  const std::size_t me = current;
  const auto meet_in_warp = [&] {
    fibers[me].waits = false;
    swapcontext(&fibers[me].context, &scheduler);
  };
  fibers[me].shown = value;
  meet_in_warp();
  const float other = fibers[me ^ static_cast<std::size_t>(distance)].shown;
  meet_in_warp();
  return other;
}

}  // namespace emulation

std::int64_t paceline::cuda::global_nanoseconds() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}
