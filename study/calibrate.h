#pragma once
// Measures this machine: what a rank computes, and how ranks exchange data through its memory. All
// by running programs through the engine and fitting their traces, so that what the interpreter
// costs is in the figures.

#include <functional>
#include <string>
#include <vector>

#include "core/cluster.h"
#include "study/device_fit.h"

namespace orrery::study {

struct CalibrateOptions {
  /// Numbers of ranks to describe the machine for. Each is measured with as many ranks at once, but
  /// no more than there are cores: ranks slow each other through caches and memory.
  std::vector<int> ranks = {1, 2, 4, 8};
  std::function<void(const std::string&)> progress;  ///< Called with what is being measured.
};

/// The machine as a cluster of one node with so many ranks.
struct CalibratedCluster {
  core::Cluster cluster;
  std::vector<OperatorFit> quality;  ///< Of its device, by operator.
};

/// @throws core::ConfigError for a number of ranks that is neither 1 nor even.
std::vector<CalibratedCluster> calibrate(const CalibrateOptions&);

/// Name of this machine's processor, as the operating system gives it.
std::string processor_name();

}  // namespace orrery::study
