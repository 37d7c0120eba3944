#pragma once
// HDF5's C interface for trace_hdf5_write.cpp and trace_hdf5_read.cpp: owned identifiers, failures,
// the types of the file.

#include <fmt/format.h>
#include <hdf5.h>
#include <zlib.h>

#include <functional>
#include <string>
#include <string_view>

#include "core/trace/trace_columns.h"

namespace orrery::core {

/// What a reading or writing call of HDF5 could not do; becomes a ConfigError with the path.
struct Hdf5Failure {
  std::string what;
};

/// Silences HDF5's own printing while it lives.
class QuietHdf5 {
 public:
  QuietHdf5() {
    H5Eget_auto2(H5E_DEFAULT, &print_, &data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  ~QuietHdf5() { H5Eset_auto2(H5E_DEFAULT, print_, data_); }
  QuietHdf5(const QuietHdf5&) = delete;
  QuietHdf5& operator=(const QuietHdf5&) = delete;

 private:
  H5E_auto2_t print_ = nullptr;
  void* data_ = nullptr;
};

/// Owns one HDF5 identifier.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle(hid_t id, Close close, const std::string& what) : id_(id), close_(close) {
    if (id < 0) throw Hdf5Failure{what};
  }
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  Handle(Handle&& other) noexcept : id_(other.id_), close_(other.close_) { other.id_ = -1; }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  operator hid_t() const { return id_; }

 private:
  hid_t id_;
  Close close_;
};

inline void require(herr_t status, const std::string& what) {
  if (status < 0) throw Hdf5Failure{what};
}

template <class T>
hid_t native_type();
template <>
inline hid_t native_type<std::int32_t>() {
  return H5T_NATIVE_INT32;
}
template <>
inline hid_t native_type<std::int64_t>() {
  return H5T_NATIVE_INT64;
}
template <>
inline hid_t native_type<double>() {
  return H5T_NATIVE_DOUBLE;
}

inline Handle text_type() {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose, "text");
  require(H5Tset_size(type, H5T_VARIABLE), "text");
  require(H5Tset_cset(type, H5T_CSET_UTF8), "text");
  return type;
}

/// An 8-bit enumeration whose names are written into the file: a reader of another version maps
/// values by name.
inline Handle enum_type(int values, const std::function<std::string_view(int)>& name) {
  Handle type(H5Tenum_create(H5T_NATIVE_INT8), H5Tclose, "enumeration");
  for (int i = 0; i < values; ++i) {
    const auto value = static_cast<std::int8_t>(i);
    require(H5Tenum_insert(type, std::string(name(i)).c_str(), &value), "enumeration");
  }
  return type;
}
inline Handle stream_type() {
  return enum_type(kStreams, [](int i) { return stream_name(static_cast<Stream>(i)); });
}
inline Handle kind_type() {
  return enum_type(kSpanKinds, [](int i) { return span_kind_name(static_cast<SpanKind>(i)); });
}

inline constexpr std::size_t kUserBlock = 512;  // The smallest place where HDF5 looks for its data.

inline std::string user_block(uLong sum) {
  return fmt::format("{:<{}}\n", fmt::format("{} crc32 {:08x}", kTraceFormat, sum), kUserBlock - 1);
}

inline constexpr std::int32_t kNoMicrobatch = -1;  // In the file only.

}  // namespace orrery::core
