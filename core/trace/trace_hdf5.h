#pragma once
// A trace as HDF5 columns, one dataset per field, readable with h5py:
//
//   user block   512 bytes before the HDF5 data, which HDF5 skips: "orrery trace crc32 <hex>" of
//   all
//                that follows (HDF5 itself may crash on damaged data)
//   /            attributes format, version, simulated
//   about        one string attribute per entry
//   names        strings
//   lanes/       rank, stream (enum); also_begin, also: compressed rows of the ranks stood for
//   spans/       lane, name, kind (enum), step, call, index, microbatch (-1: none),
//                start_ns, transfer_ns, end_ns, bytes
//   dependencies/  begin, span        collectives/  begin, span        (compressed rows)
//   flows/       from, to, bytes
//   counters/N/  attributes name, unit, rank (if any); time_ns, value
//   steps/       start_ns, end_ns, loss (NaN: none)

#include <filesystem>
#include <string>

#include "core/trace.h"

namespace orrery::core {

/// The bytes of the HDF5 file.
std::string trace_to_hdf5(const Trace&);

/// @throws ConfigError naming path and reason.
Trace trace_from_hdf5(const std::filesystem::path&);

}  // namespace orrery::core
