#include "engine/weights.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "core/error.h"
#include "engine/normal_numbers.h"
#include "engine/store.h"

namespace orrery::engine {

namespace {

using core::Parameters;
using core::ParameterTensor;

// A local part as rows and columns, and where it lies in the whole tensor.
struct Part {
  std::int64_t rows = 0, columns = 0;              // Of the part in the buffer, padding included.
  std::int64_t valid_rows = 0, valid_columns = 0;  // Of them within the whole tensor.
  std::int64_t first_row = 0, first_column = 0;    // In the whole tensor.
};

std::int64_t rows_of(const std::vector<std::int64_t>& shape) { return shape.front(); }

std::int64_t columns_of(const std::vector<std::int64_t>& shape) {
  std::int64_t columns = 1;
  for (std::size_t d = 1; d < shape.size(); ++d) columns *= shape[d];
  return columns;
}

const core::Group& group_of(const core::Program& program, core::Rank rank, core::GroupSlot slot) {
  return program.groups[program.ranks[rank.index()].groups[slot.index()].index()];
}

/// With the model's number of an expert where its place is.
std::string name_of(const ParameterTensor& tensor, int first_expert) {
  if (!tensor.expert) return tensor.name;
  std::string name = tensor.name;
  return name.replace(name.find("{}"), 2, std::to_string(first_expert + *tensor.expert));
}

/// Visits every tensor of the program by its name, those of all ranks' experts among them.
template <class Visit>
void for_each_tensor(const core::Program& program, const Visit& visit) {
  std::set<std::string> seen;
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    const core::Rank rank(r);
    const int first_expert = tensor_place(program, rank).first_expert;
    for (const ParameterTensor& tensor : program.role_of(rank).parameters.tensors) {
      const std::string name = name_of(tensor, first_expert);
      // Rows of one tensor of the file may be several.
      if (seen.insert(name + ":" + std::to_string(tensor.file_row)).second) visit(tensor, name);
    }
  }
}

Part part_of(const ParameterTensor& tensor, int position) {
  Part part;
  part.rows = rows_of(tensor.local_shape);
  part.columns = columns_of(tensor.local_shape);
  if (tensor.split_dim == 0) part.first_row = position * part.rows;
  if (tensor.split_dim == 1) part.first_column = position * part.columns;
  part.valid_rows =
      std::clamp<std::int64_t>(rows_of(tensor.global_shape) - part.first_row, 0, part.rows);
  part.valid_columns = std::clamp<std::int64_t>(columns_of(tensor.global_shape) - part.first_column,
                                                0, part.columns);
  return part;
}

// ---- files ---------------------------------------------------------------------------------

float bfloat16_value(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

float float16_value(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1F;
  const int fraction = bits & 0x3FF;
  const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  if (exponent == 31) {
    return fraction == 0 ? sign * std::numeric_limits<float>::infinity()
                         : std::numeric_limits<float>::quiet_NaN();
  }
  return sign * std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
}

// Reads single elements of a tensor in any of the types a weights file has.
class ElementReader {
 public:
  ElementReader(const TensorView& view, const std::filesystem::path& path, const std::string& name)
      : bytes_(view.bytes.data()) {
    if (view.dtype == "F32") {
      type_ = Type::F32;
    } else if (view.dtype == "BF16") {
      type_ = Type::BF16;
    } else if (view.dtype == "F16") {
      type_ = Type::F16;
    } else {
      throw core::ConfigError(path.string() + ": \"" + name + "\" is " + view.dtype +
                              "; weights are F32, BF16 or F16");
    }
  }

  float operator()(std::int64_t i) const {
    switch (type_) {
      case Type::F32:
        return at<float>(i);
      case Type::BF16:
        return bfloat16_value(at<std::uint16_t>(i));
      case Type::F16:
        return float16_value(at<std::uint16_t>(i));
    }
    return 0.0F;
  }

 private:
  enum class Type { F32, BF16, F16 };

  template <class Element>
  Element at(std::int64_t i) const {
    Element value;
    std::memcpy(&value, bytes_ + static_cast<std::size_t>(i) * sizeof(Element), sizeof(Element));
    return value;
  }

  const std::byte* bytes_;
  Type type_ = Type::F32;
};

const std::string& name_in(const SafetensorsFile& file, const std::string& name,
                           std::string& shortened) {
  constexpr std::string_view kPrefix = "transformer.";
  if (file.has(name) || name.compare(0, kPrefix.size(), kPrefix) != 0) return name;
  shortened = name.substr(kPrefix.size());
  return file.has(shortened) ? shortened : name;
}

std::string text_of(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t extent : shape) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(extent);
  }
  return text + "]";
}

// Where element (row, column) of a tensor lies in the file's tensor.
struct FilePlace {
  std::int64_t row_stride = 0, column_stride = 0, first = 0;
  std::int64_t operator()(std::int64_t row, std::int64_t column) const {
    return first + row * row_stride + column * column_stride;
  }
};

FilePlace place_in_file(const ParameterTensor& tensor,
                        const std::vector<std::int64_t>& file_shape) {
  const std::int64_t columns = columns_of(tensor.global_shape);
  if (tensor.file_transposed) return {1, file_shape[1], tensor.file_row};
  return {columns, 1, tensor.file_row * columns};
}

void check_shape(const ParameterTensor& tensor, const SafetensorsFile& file,
                 const std::string& name) {
  const std::vector<std::int64_t>& found = file.shape(name);
  std::vector<std::int64_t> needed = tensor.global_shape;
  if (tensor.file_transposed) std::reverse(needed.begin(), needed.end());
  const std::size_t rows = tensor.file_transposed ? needed.size() - 1 : 0;
  const std::int64_t last_row = tensor.file_row + tensor.global_shape.front();
  bool fits = found.size() == needed.size();
  for (std::size_t d = 0; fits && d < found.size(); ++d) {
    fits = d == rows && tensor.file_row > 0 ? found[d] >= last_row : found[d] >= needed[d];
    if (d != rows) fits = fits && found[d] == needed[d];
  }
  if (fits) return;
  needed[rows] = last_row;
  throw core::ConfigError(file.path().string() + ": \"" + name + "\" has shape " + text_of(found) +
                          ", the model needs " + text_of(needed));
}

}  // namespace

TensorPlace tensor_place(const core::Program& program, core::Rank rank) {
  const core::Role& role = program.role_of(rank);
  const auto position = [&](const std::optional<core::GroupSlot>& slot) {
    return slot ? core::position_in(group_of(program, rank, *slot), rank) : 0;
  };
  return {.part = position(role.tensor_group),
          .first_expert = position(role.expert_group) * role.parameters.experts};
}

void draw_weights(const Parameters& parameters, TensorPlace place, std::uint64_t seed,
                  float* values) {
  std::fill_n(values, parameters.elements, 0.0F);
  for (const ParameterTensor& tensor : parameters.tensors) {
    const Part part = part_of(tensor, place.part);
    const NormalNumbers normal(seed, name_of(tensor, place.first_expert));
    const std::int64_t columns = columns_of(tensor.global_shape);
    float* out = values + tensor.offset;
    for (std::int64_t r = 0; r < part.valid_rows; ++r) {
      const std::int64_t row = tensor.file_row + part.first_row + r;
      for (std::int64_t c = 0; c < part.valid_columns; ++c) {
        double value = tensor.initial_value;
        if (tensor.initial_stddev > 0.0) {
          value += tensor.initial_stddev * normal(row * columns + part.first_column + c);
        }
        out[r * part.columns + c] = static_cast<float>(value);
      }
    }
  }
}

std::vector<core::ParameterRange> held_parameters(const core::Program& program, core::Rank rank) {
  const Parameters& parameters = program.role_of(rank).parameters;
  if (parameters.sharded.empty()) return {{0, parameters.elements}};
  std::vector<core::ParameterRange> held;
  for (const core::ShardedRange& sharded : parameters.sharded) {
    core::ParameterRange range = sharded.range;
    if (sharded.group) {
      const core::Group& group = group_of(program, rank, *sharded.group);
      range.count /= static_cast<std::int64_t>(group.members.size());
      range.first += core::position_in(group, rank) * range.count;
    }
    held.push_back(range);
  }
  return held;
}

void cut_slices(const std::vector<core::ParameterRange>& held, const float* whole, float* slices) {
  for (const core::ParameterRange& range : held) {
    slices = std::copy_n(whole + range.first, range.count, slices);
  }
}

void check_weights(const core::Program& program, const SafetensorsFile& file) {
  for_each_tensor(program, [&](const ParameterTensor& tensor, const std::string& whole_name) {
    std::string shortened;
    const std::string& name = name_in(file, whole_name, shortened);
    check_shape(tensor, file, name);
    ElementReader(file.tensors().at(name), file.path(), name);
  });
}

void load_weights(const Parameters& parameters, TensorPlace place, const SafetensorsFile& file,
                  float* values) {
  std::fill_n(values, parameters.elements, 0.0F);
  for (const ParameterTensor& tensor : parameters.tensors) {
    std::string shortened;
    const std::string whole_name = name_of(tensor, place.first_expert);
    const std::string& name = name_in(file, whole_name, shortened);
    check_shape(tensor, file, name);
    const ElementReader element(file.tensors().at(name), file.path(), name);
    const FilePlace in_file = place_in_file(tensor, file.shape(name));
    const Part part = part_of(tensor, place.part);
    float* out = values + tensor.offset;
    for (std::int64_t r = 0; r < part.valid_rows; ++r) {
      for (std::int64_t c = 0; c < part.valid_columns; ++c) {
        out[r * part.columns + c] = element(in_file(part.first_row + r, part.first_column + c));
      }
    }
  }
}

WeightAssembly::WeightAssembly(const core::Program& program) {
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for_each_tensor(program, [&](const ParameterTensor& tensor, const std::string& name) {
    std::vector<std::int64_t> shape = tensor.global_shape;
    shape.front() += tensor.file_row;
    if (tensor.file_transposed) std::reverse(shape.begin(), shape.end());
    std::vector<std::int64_t>& largest = shapes.try_emplace(name, shape).first->second;
    for (std::size_t d = 0; d < shape.size(); ++d) largest[d] = std::max(largest[d], shape[d]);
  });
  if (program.embedding) {
    shapes[kEmbeddingName] = {program.embedding->rows, program.embedding->dim};
    if (program.embedding->wide) shapes[kWideName] = {program.embedding->rows, 1};
  }
  for (auto& [name, shape] : shapes) {
    const auto count = static_cast<std::size_t>(rows_of(shape) * columns_of(shape));
    tensors_.push_back({name, shape, std::vector<float>(count)});
  }
}

NamedTensor& WeightAssembly::named(std::string_view name) {
  return *std::lower_bound(tensors_.begin(), tensors_.end(), name,
                           [](const NamedTensor& candidate, std::string_view wanted) {
                             return candidate.name < wanted;
                           });
}

void WeightAssembly::add_shard(const core::Embedding& embedding, int server,
                               std::span<const float> rows) {
  Store::copy(embedding, server, rows, named(kEmbeddingName).values,
              embedding.wide ? named(kWideName).values : std::span<float>());
}

bool WeightAssembly::needs(const core::Program& program, core::Rank rank) {
  const Parameters& parameters = program.role_of(rank).parameters;
  return program.ranks[rank.index()].data_way == 0 || parameters.experts > 0 ||
         !parameters.sharded.empty();
}

void WeightAssembly::add(const core::Program& program, core::Rank rank, const float* values) {
  const Parameters& parameters = program.role_of(rank).parameters;
  const TensorPlace place = tensor_place(program, rank);
  for (const core::ParameterRange& range : held_parameters(program, rank)) {
    add_range(parameters, place, range, values);
    values += range.count;
  }
}

void WeightAssembly::add_range(const Parameters& parameters, TensorPlace place,
                               const core::ParameterRange& range, const float* values) {
  for (const ParameterTensor& tensor : parameters.tensors) {
    if (tensor.counted == core::Counted::Never) continue;
    const Part part = part_of(tensor, place.part);
    const std::int64_t begin = std::max(range.first, tensor.offset) - tensor.offset;
    const std::int64_t end =
        std::min(range.first + range.count - tensor.offset, part.rows * part.columns);
    if (begin >= end) continue;
    NamedTensor& whole = named(name_of(tensor, place.first_expert));
    const FilePlace in_file = place_in_file(tensor, whole.shape);
    const float* in = values + (tensor.offset - range.first);
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t r = i / part.columns;
      const std::int64_t c = i % part.columns;
      if (r >= part.valid_rows || c >= part.valid_columns) continue;
      whole.values[static_cast<std::size_t>(in_file(part.first_row + r, part.first_column + c))] =
          in[i];
    }
  }
}

}  // namespace orrery::engine
