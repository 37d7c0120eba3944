#include "engine/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/error.h"
#include "tests/engine/parity_fixture.h"
#include "tests/engine/temporary_folder.h"

namespace orrery::engine {
namespace {

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string with_header(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

std::string failure_of(const std::filesystem::path& path) {
  try {
    const SafetensorsFile file(path);
    return "none";
  } catch (const core::ConfigError& error) {
    return error.what();
  }
}

TEST(Safetensors, ReadsWhatItWrote) {
  const TemporaryFolder folder;
  write_safetensors(folder.path() / "w.safetensors",
                    {{"b", {2, 3}, {1, 2, 3, 4, 5, 6}}, {"a", {}, {7.5F}}, {"empty", {0, 4}, {}}},
                    {{"format", "pt"}});
  const SafetensorsFile file(folder.path() / "w.safetensors");
  EXPECT_EQ(file.tensors().size(), 3U);
  EXPECT_EQ(file.shape("b"), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(file.floats("b")[5], 6.0F);
  EXPECT_EQ(file.floats("a")[0], 7.5F);
  EXPECT_TRUE(file.floats("empty").empty());
  EXPECT_EQ(file.metadata().at("format"), "pt");
}

TEST(Safetensors, ReadsTheOraclesFiles) {
  const SafetensorsFile file(fixture("gpt_tokens.safetensors"));
  EXPECT_EQ(file.shape("tokens"), (std::vector<std::int64_t>{20, 8, 33}));
  EXPECT_EQ(file.ints("tokens").size(), 20U * 8 * 33);
  EXPECT_THROW(file.floats("tokens"), core::ConfigError);
  EXPECT_THROW(file.ints("nothing"), core::ConfigError);
}

// Wherever a file is cut off, one message names it and says so.
TEST(Safetensors, EveryCutIsNoticed) {
  const TemporaryFolder folder;
  const std::string whole = bytes_of(fixture("gpt_tokens.safetensors"));
  const std::filesystem::path path = folder.path() / "cut.safetensors";
  for (const std::size_t length : {std::size_t{0}, std::size_t{5}, std::size_t{8}, std::size_t{20},
                                   whole.size() / 2, whole.size() - 1}) {
    write_bytes(path, whole.substr(0, length));
    const std::string message = failure_of(path);
    EXPECT_EQ(message.find(path.string()), 0U) << message;
    EXPECT_TRUE(length < 8 || message.find("cut off") != std::string::npos) << message;
  }
}

TEST(Safetensors, ImpossibleHeadersAreNoticed) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "bad.safetensors";
  const std::string data(16, '\0');
  for (const char* header :
       {"[]", "{", R"({"a":1})", R"({"a":{"dtype":"F32","shape":[4]}})",
        R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[8,0]}})",
        R"({"a":{"dtype":"F32","shape":[5],"data_offsets":[0,16]}})",
        R"({"a":{"dtype":"F99","shape":[4],"data_offsets":[0,16]}})",
        R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,16]}})",
        R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,16]}})"}) {
    write_bytes(path, with_header(header, data));
    EXPECT_NE(failure_of(path), "none") << header;
  }
  EXPECT_THROW(SafetensorsFile(folder.path() / "missing"), core::ConfigError);
  EXPECT_THROW(SafetensorsFile{folder.path()}, core::ConfigError);
}

TEST(Safetensors, AFileThatCannotBeWrittenLeavesNothing) {
  const TemporaryFolder folder;
  EXPECT_THROW(write_safetensors(folder.path() / "no" / "w.safetensors", {{"a", {1}, {1}}}),
               core::SystemError);
  EXPECT_THROW(write_safetensors("/dev/full/w", {{"a", {1}, {1}}}), core::SystemError);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace orrery::engine
