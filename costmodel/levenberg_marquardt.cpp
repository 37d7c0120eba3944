#include "costmodel/levenberg_marquardt.h"

#include <Eigen/Dense>
#include <cmath>

namespace orrery::costmodel {
namespace {

using Function = std::function<std::vector<double>(const std::vector<double>&)>;

Eigen::VectorXd evaluate(const Function& residuals, const Eigen::VectorXd& x) {
  const std::vector<double> values = residuals({x.begin(), x.end()});
  return Eigen::Map<const Eigen::VectorXd>(values.data(), static_cast<Eigen::Index>(values.size()));
}

Eigen::MatrixXd jacobian(const Function& residuals, const Eigen::VectorXd& x,
                         const Eigen::VectorXd& at_x) {
  Eigen::MatrixXd result(at_x.size(), x.size());
  for (Eigen::Index j = 0; j < x.size(); ++j) {
    const double step = 1e-7 * std::max(1.0, std::abs(x[j]));
    Eigen::VectorXd moved = x;
    moved[j] += step;
    result.col(j) = (evaluate(residuals, moved) - at_x) / step;
  }
  return result;
}

}  // namespace

std::vector<double> least_squares(const Function& residuals, std::vector<double> start) {
  constexpr int kMaxSteps = 500;
  constexpr double kConverged = 1e-12;
  Eigen::VectorXd x =
      Eigen::Map<const Eigen::VectorXd>(start.data(), static_cast<Eigen::Index>(start.size()));
  Eigen::VectorXd r = evaluate(residuals, x);
  double damping = 1e-3;
  for (int step = 0; step < kMaxSteps; ++step) {
    const Eigen::MatrixXd j = jacobian(residuals, x, r);
    Eigen::MatrixXd normal = j.transpose() * j;
    normal.diagonal() += damping * normal.diagonal();
    normal.diagonal().array() += 1e-15;  // A parameter without influence stays where it is.
    const Eigen::VectorXd candidate = x - normal.ldlt().solve(j.transpose() * r);
    const Eigen::VectorXd there = evaluate(residuals, candidate);
    const double before = r.squaredNorm();
    const double after = there.squaredNorm();
    if (!(after < before)) {
      damping *= 4.0;
      if (damping > 1e12) break;
      continue;
    }
    x = candidate;
    r = there;
    damping = std::max(damping / 4.0, 1e-12);
    if (before - after < kConverged * before) break;
  }
  return {x.begin(), x.end()};
}

}  // namespace orrery::costmodel
