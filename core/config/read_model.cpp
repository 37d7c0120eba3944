#include <fmt/format.h>

#include "core/config/hugging_face.h"
#include "core/config/read.h"
#include "core/config/table_reader.h"

namespace orrery::core {

namespace {

constexpr std::int64_t kMaxRows = 1'000'000'000'000'000;  // 10^15: beyond any published table.
constexpr int kMaxWidth = 1'000'000;

EmbeddingTable read_table(TableReader reader) {
  EmbeddingTable table;
  table.name = reader.text("name");
  table.rows = reader.integer("rows", 1, kMaxRows);
  table.dim = reader.count("dim", 1, kMaxWidth);
  if (reader.has("lookups_per_sample")) {
    table.lookups_per_sample = reader.count("lookups_per_sample", 1, kMaxWidth);
  }
  if (reader.has("zipf_exponent")) table.zipf_exponent = reader.constant("zipf_exponent", {0, 10});
  reader.finish();
  return table;
}

Model read_click_through(const std::filesystem::path& file) {
  const ConfigValue value = parse_toml_file(file);
  TableReader reader(file.string(), value, Sources::Optional);
  Model model;
  model.name = reader.text("name");
  ClickThrough c;
  c.dense_features = reader.count("dense_features", 0, kMaxWidth);
  c.mlp = reader.counts("mlp", 1, kMaxWidth);
  c.interaction = reader.choice<Interaction>(
      "interaction", {{"none", Interaction::None},
                      {"factorization-machine", Interaction::FactorizationMachine},
                      {"dot", Interaction::Dot}});
  if (reader.has("wide")) c.wide = reader.boolean("wide");
  double rows = 0;
  for (TableReader& table : reader.tables("table")) {
    c.tables.push_back(read_table(table));
    rows += static_cast<double>(c.tables.back().rows) * c.tables.back().dim;
  }
  if (rows > 1e17) reader.fail("table", "the tables hold more than 1e17 parameters");
  reader.finish();
  model.click_through = std::move(c);
  return model;
}

/// "llama-3-8b" of "llama-3-8b/config.json"; the file's own name otherwise.
std::string name_of(const std::filesystem::path& file) {
  const auto folder = std::filesystem::absolute(file).parent_path().filename();
  return file.filename() == "config.json" && !folder.empty() ? folder.string()
                                                             : file.stem().string();
}

}  // namespace

Model read_model(const std::filesystem::path& path) {
  std::error_code unknown;  // A path that cannot be followed is reported when it is read.
  const auto file = std::filesystem::is_directory(path, unknown) ? path / "config.json" : path;
  if (file.extension() == ".toml") return read_click_through(file);
  Model model;
  model.name = name_of(file);
  model.transformer = read_hugging_face(file);
  return model;
}

std::filesystem::path resolve_beside(const std::filesystem::path& file,
                                     const std::filesystem::path& path) {
  return path.is_absolute() ? path : (file.parent_path() / path).lexically_normal();
}

}  // namespace orrery::core
