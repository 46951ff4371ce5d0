// NCCL's double binary tree over nodes.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "sim/collective/algorithms.h"

namespace paceline {
namespace {

// Each node's parent.
std::vector<int> parents(int nodes, int tree) {
  std::vector<int> up;
  for (int node = 0; node < nodes; ++node) {
    up.push_back(double_binary_tree(nodes, node, tree).up);
  }
  return up;
}

bool is_leaf(int nodes, int node, int tree) {
  const TreePlace place = double_binary_tree(nodes, node, tree);
  return place.down[0] < 0 && place.down[1] < 0;
}

TEST_CASE("the trees are NCCL's") {
  using Up = std::vector<int>;
  CHECK(parents(1, 0) == Up{-1});
  CHECK(parents(1, 1) == Up{-1});
  CHECK(parents(2, 0) == Up{-1, 0});
  CHECK(parents(2, 1) == Up{1, -1});
  CHECK(parents(3, 0) == Up{-1, 2, 0});
  CHECK(parents(3, 1) == Up{1, -1, 0});
  CHECK(parents(4, 0) == Up{-1, 2, 0, 2});
  CHECK(parents(4, 1) == Up{1, 3, 1, -1});
  CHECK(parents(8, 0) == Up{-1, 2, 4, 2, 0, 6, 4, 6});
  // The pictures in src/graph/trees.cc: mirrored for an even, shifted for an odd number of nodes.
  CHECK(parents(12, 0) == Up{-1, 2, 4, 2, 8, 6, 4, 6, 0, 10, 8, 10});
  CHECK(parents(12, 1) == Up{1, 3, 1, 11, 5, 7, 5, 3, 9, 7, 9, -1});
  CHECK(parents(13, 0) == Up{-1, 2, 4, 2, 8, 6, 4, 6, 0, 10, 12, 10, 8});
  CHECK(parents(13, 1) == Up{9, -1, 3, 5, 3, 9, 7, 5, 7, 1, 11, 0, 11});
}

TEST_CASE("parents and children agree, and no node is deeper than the logarithm") {
  for (int nodes = 1; nodes <= 300; ++nodes) {
    int log2 = 0;
    while ((1 << log2) < nodes) {
      ++log2;
    }
    for (int tree = 0; tree < 2; ++tree) {
      const std::vector<int> up = parents(nodes, tree);
      CHECK(std::count(up.begin(), up.end(), -1) == 1);
      for (int node = 0; node < nodes; ++node) {
        INFO("node " << node << " of " << nodes << ", tree " << tree);
        std::vector<int> children;
        for (int child = 0; child < nodes; ++child) {
          if (up[static_cast<std::size_t>(child)] == node) {
            children.push_back(child);
          }
        }
        std::vector<int> down;
        for (const int child : double_binary_tree(nodes, node, tree).down) {
          if (child >= 0) {
            down.push_back(child);
          }
        }
        std::sort(down.begin(), down.end());
        REQUIRE(down == children);
        int depth = 0;
        for (int at = node; up[static_cast<std::size_t>(at)] >= 0; at = up[static_cast<std::size_t>(at)]) {
          REQUIRE(++depth <= log2);
        }
      }
    }
  }
}

TEST_CASE("a node is a leaf in one tree and inside the other, of an odd number one is a leaf in both") {
  for (int nodes = 2; nodes <= 300; ++nodes) {
    int both = 0;
    for (int node = 0; node < nodes; ++node) {
      const bool first = is_leaf(nodes, node, 0), second = is_leaf(nodes, node, 1);
      CHECK((first || second || nodes % 2 == 1));
      both += first == second ? 1 : 0;
    }
    INFO(nodes);
    CHECK(both == (nodes % 2 == 0 ? 0 : 1));
  }
}

}  // namespace
}  // namespace paceline
