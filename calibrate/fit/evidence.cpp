#include "calibrate/fit/evidence.h"

#include <Eigen/Cholesky>
#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

namespace paceline {
struct EvidenceCell {
  Eigen::MatrixXd inverse;  // of the covariance
  double log_determinant = 0;
  Eigen::VectorXd variance;  // of the noise alone
};

namespace {

// Shares of the known discrepancy, and of the known noise, that a machine may have; each is as likely.
constexpr std::array kShares{0.05, 0.25, 0.6, 1.2};
constexpr std::array kNoises{1.0, 2.0};

// One row in twenty is an outlier, off by so much (a protocol's switch at another size, a disturbance).
constexpr double kOutliers = 0.05, kOutlierDeviation = 0.4;

EvidenceCell cell_of(std::span<const EvidenceRow> rows, double share, double noises) {
  const auto n = static_cast<Eigen::Index>(rows.size());
  Eigen::MatrixXd all(n, n);
  const auto row = [&](Eigen::Index i) -> const EvidenceRow& { return rows[static_cast<std::size_t>(i)]; };
  Eigen::VectorXd own(n), variance(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    own(i) = std::sqrt(covariance(row(i).at, row(i).at, {}));
    variance(i) = std::pow(noises * row(i).noise, 2);
  }
  for (Eigen::Index i = 0; i < n; ++i) {
    for (Eigen::Index j = 0; j < n; ++j) {
      all(i, j) = share * share * row(i).deviation * row(j).deviation * covariance(row(i).at, row(j).at, {}) /
                  (own(i) * own(j));
    }
    all(i, i) += variance(i);
  }
  const Eigen::LLT<Eigen::MatrixXd> factor(all);
  double half = 0;
  for (Eigen::Index i = 0; i < n; ++i) {
    half += std::log(factor.matrixLLT()(i, i));
  }
  return {factor.solve(Eigen::MatrixXd::Identity(n, n)), 2 * half, std::move(variance)};
}

// Rows become outliers one by one, the one that gains most first, as long as one gains.
double log_density(const EvidenceCell& cell, const Eigen::VectorXd& ratio) {
  const Eigen::Index n = ratio.size();
  Eigen::VectorXd pull = cell.inverse * ratio;
  double result = -0.5 * (ratio.dot(pull) + cell.log_determinant +
                          static_cast<double>(n) * std::log(2 * std::numbers::pi)) +
                  static_cast<double>(n) * std::log(1 - kOutliers);
  Eigen::MatrixXd inverse;
  std::vector<bool> is_outlier(static_cast<std::size_t>(n));
  for (Eigen::Index out = 0; out < n / 3; ++out) {
    const Eigen::MatrixXd& now = out == 0 ? cell.inverse : inverse;
    double most = 0;
    Eigen::Index which = -1;
    for (Eigen::Index i = 0; i < n; ++i) {
      const double more = kOutlierDeviation * kOutlierDeviation - cell.variance(i);
      const double grown = 1 + more * now(i, i);
      const double gain =
          0.5 * (more * pull(i) * pull(i) / grown - std::log(grown)) + std::log(kOutliers / (1 - kOutliers));
      if (!is_outlier[static_cast<std::size_t>(i)] && gain > most) {
        most = gain;
        which = i;
      }
    }
    if (which < 0) {
      break;
    }
    const double more = kOutlierDeviation * kOutlierDeviation - cell.variance(which);
    const Eigen::VectorXd column = now.col(which);
    const double share = more / (1 + more * now(which, which));
    inverse = now - share * column * column.transpose();
    pull = inverse * ratio;
    is_outlier[static_cast<std::size_t>(which)] = true;
    result += most;
  }
  return result;
}

}  // namespace

struct Evidence::Cells {
  std::vector<EvidenceCell> all;
};

Evidence::Evidence(std::span<const EvidenceRow> rows) : cells_(std::make_unique<Cells>()) {
  for (const double share : kShares) {
    for (const double noises : kNoises) {
      cells_->all.push_back(cell_of(rows, share, noises));
    }
  }
}
Evidence::~Evidence() = default;
Evidence::Evidence(Evidence&&) noexcept = default;
Evidence& Evidence::operator=(Evidence&&) noexcept = default;

double Evidence::of(std::span<const double> log_ratio) const {
  const Eigen::Map<const Eigen::VectorXd> ratio(log_ratio.data(),
                                                static_cast<Eigen::Index>(log_ratio.size()));
  std::vector<double> each;
  for (const EvidenceCell& cell : cells_->all) {
    each.push_back(log_density(cell, ratio));
  }
  return log_mean_exp(each);
}

double log_mean_exp(std::span<const double> logs) {
  if (logs.empty()) {
    return -std::numeric_limits<double>::infinity();
  }
  const double most = *std::ranges::max_element(logs);
  double sum = 0;
  for (const double each : logs) {
    sum += std::exp(each - most);
  }
  return most + std::log(sum / static_cast<double>(logs.size()));
}

}  // namespace paceline
