#pragma once
// Least squares for the few-parameter fits of this folder.

#include <functional>
#include <vector>

namespace orrery::costmodel {

/// Parameters that minimise Σ residual², started at `start`: damped Gauss-Newton with a forward
/// difference Jacobian; the damping grows when a step does not help and shrinks when it does.
/// Stops when a step changes the sum by less than 1e-12 of itself, or after 500 steps.
/// Source: Marquardt, SIAM J. Appl. Math. 11(2), 1963.
///
/// @param residuals  Same number of values at every call.
std::vector<double> least_squares(
    const std::function<std::vector<double>(const std::vector<double>&)>& residuals,
    std::vector<double> start);

}  // namespace orrery::costmodel
