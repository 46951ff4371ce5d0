#include "calibrate/fit/discrepancy.h"

#include <Eigen/Cholesky>
#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

namespace paceline {
namespace {

double log2_of(std::int64_t n) { return std::log2(static_cast<double>(std::max<std::int64_t>(n, 1))); }

double matern(double distance, double length) {
  const double r = std::sqrt(3.0) * std::abs(distance) / length;
  return (1 + r) * std::exp(-r);
}

}  // namespace

double covariance(const DiscrepancyPoint& a, const DiscrepancyPoint& b, const DiscrepancyScales& scales) {
  if (a.kind != b.kind) {
    return 0;
  }
  const bool crosses = (a.nodes > 1) != (b.nodes > 1);
  const double place = std::exp(-std::abs(log2_of(a.gpus_per_node) - log2_of(b.gpus_per_node)) / scales.gpus -
                                std::abs(log2_of(a.nodes) - log2_of(b.nodes)) / scales.nodes) *
                       (crosses ? scales.across : 1);
  const double size = matern(log2_of(a.bytes.value) - log2_of(b.bytes.value), scales.size);
  return place * (scales.deviation * scales.deviation * size + scales.level * scales.level);
}

struct DiscrepancyModel::Solved {
  std::vector<DiscrepancyPoint> points;
  DiscrepancyScales scales;
  Eigen::LLT<Eigen::MatrixXd> factor;
  Eigen::VectorXd weights;
};

DiscrepancyModel::DiscrepancyModel(std::span<const DiscrepancyPoint> points, const DiscrepancyScales& scales)
    : solved_(std::make_unique<Solved>()) {
  solved_->points.assign(points.begin(), points.end());
  solved_->scales = scales;
  const auto n = static_cast<Eigen::Index>(points.size());
  Eigen::MatrixXd all(n, n);
  Eigen::VectorXd ratios(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    const DiscrepancyPoint& a = points[static_cast<std::size_t>(i)];
    for (Eigen::Index j = 0; j < n; ++j) {
      all(i, j) = covariance(a, points[static_cast<std::size_t>(j)], scales);
    }
    all(i, i) += a.noise * a.noise + 1e-9;
    ratios(i) = a.log_ratio;
  }
  solved_->factor.compute(all);
  solved_->weights = solved_->factor.solve(ratios);
}
DiscrepancyModel::~DiscrepancyModel() = default;
DiscrepancyModel::DiscrepancyModel(DiscrepancyModel&&) noexcept = default;
DiscrepancyModel& DiscrepancyModel::operator=(DiscrepancyModel&&) noexcept = default;

Discrepancy DiscrepancyModel::at(CollectiveKind kind, int nodes, int gpus_per_node, Bytes bytes) const {
  const DiscrepancyPoint here{kind, nodes, gpus_per_node, bytes, 0, 0};
  const auto n = static_cast<Eigen::Index>(solved_->points.size());
  Eigen::VectorXd near(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    near(i) = covariance(here, solved_->points[static_cast<std::size_t>(i)], solved_->scales);
  }
  const double own = covariance(here, here, solved_->scales);
  const double left = n > 0 ? own - near.dot(solved_->factor.solve(near)) : own;
  return {n > 0 ? near.dot(solved_->weights) : 0, std::sqrt(std::max(0.0, left))};
}

}  // namespace paceline
