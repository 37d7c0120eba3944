#pragma once
// Writers: what they write, the readers in core/config/read.h read back as the same value.
// Each file appears complete or not at all.

#include <filesystem>
#include <string>

#include "core/cluster.h"
#include "core/job.h"
#include "core/plan.h"

namespace orrery::core {

/// @throws SystemError when the file cannot be written.
void write_plan(const std::filesystem::path&, const Plan&);

void write_job(const std::filesystem::path&, const Job&);

/// `source` is written once at the top and stands for every number below it, e.g. "orrery
/// calibrate, host, date".
void write_device(const std::filesystem::path&, const Device&, const std::string& source);

/// Devices are written inline.
void write_cluster(const std::filesystem::path&, const Cluster&, const std::string& source);

/// A cluster that is the first `devices` of another file's.
/// @param whole  That file, absolute or beside the one written.
void write_cluster_part(const std::filesystem::path&, const std::string& name,
                        const std::string& whole, int devices);

}  // namespace orrery::core
