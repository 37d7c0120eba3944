#pragma once
// The viewer in a window.

#include <vector>

#include "core/trace.h"

namespace orrery::viz {

/// Shows one trace, or two with the first above the second, until the window is closed.
/// @throws SystemError when there is no display or no OpenGL 3.
void show(std::vector<core::Trace>);

}  // namespace orrery::viz
