#include "engine/token_data.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "core/error.h"
#include "tests/engine/parity_fixture.h"
#include "tests/engine/temporary_folder.h"

namespace orrery::engine {
namespace {

struct Batch {
  std::vector<std::int32_t> tokens, targets;
};

Batch read(const TokenSource& source, int step, std::int64_t first, std::int64_t sequences,
           std::int64_t sequence) {
  const auto count = static_cast<std::size_t>(sequences * sequence);
  Batch batch{std::vector<std::int32_t>(count), std::vector<std::int32_t>(count)};
  source.read(step, first, sequences, sequence, batch.tokens.data(), batch.targets.data());
  return batch;
}

std::filesystem::path write(const TemporaryFolder& folder, const std::string& bytes) {
  const std::filesystem::path path = folder.path() / "data";
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string llmc(std::int32_t magic, std::int32_t version, std::int32_t count,
                 const std::vector<std::uint16_t>& tokens) {
  std::vector<std::int32_t> header(256, 0);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  std::string bytes(1024 + tokens.size() * 2, '\0');
  std::memcpy(bytes.data(), header.data(), 1024);
  std::memcpy(bytes.data() + 1024, tokens.data(), tokens.size() * 2);
  return bytes;
}

// "abcdefghij": 10 bytes, sequences of 3 → ⌊9/3⌋ = 3 windows at 0, 3, 6. Global batch 2: step 0
// reads windows 0 and 1, step 1 windows 2 and 0.
TEST(TextTokens, ReadTheFileInOrderAndAgain) {
  const TemporaryFolder folder;
  const auto source = open_text(write(folder, "abcdefghij"), 3, 2);
  const Batch first = read(*source, 0, 0, 2, 3);
  EXPECT_EQ(first.tokens, (std::vector<std::int32_t>{'a', 'b', 'c', 'd', 'e', 'f'}));
  EXPECT_EQ(first.targets, (std::vector<std::int32_t>{'b', 'c', 'd', 'e', 'f', 'g'}));
  const Batch second = read(*source, 1, 0, 2, 3);
  EXPECT_EQ(second.tokens, (std::vector<std::int32_t>{'g', 'h', 'i', 'a', 'b', 'c'}));
  EXPECT_EQ(second.targets.front(), 'h');
}

// However the batch is cut over ranks, its sequences are the same.
TEST(TextTokens, AreTheSameForAnyNumberOfRanks) {
  const TemporaryFolder folder;
  const auto source =
      open_text(write(folder, std::string(1000, 'x') + "The quick brown fox"), 7, 8);
  const Batch whole = read(*source, 17, 0, 8, 7);
  for (const int parts : {2, 4, 8}) {
    Batch together;
    for (int p = 0; p < parts; ++p) {
      const Batch part = read(*source, 17, p * 8 / parts, 8 / parts, 7);
      together.tokens.insert(together.tokens.end(), part.tokens.begin(), part.tokens.end());
    }
    EXPECT_EQ(together.tokens, whole.tokens);
  }
}

TEST(TextTokens, BytesAreUnsigned) {
  const TemporaryFolder folder;
  const auto source = open_text(write(folder, "\xff\xfe\x01"), 2, 1);
  EXPECT_EQ(read(*source, 0, 0, 1, 2).tokens, (std::vector<std::int32_t>{255, 254}));
}

TEST(TextTokens, TooShortOrMissingIsAnError) {
  const TemporaryFolder folder;
  EXPECT_THROW(open_text(write(folder, ""), 3, 1), core::ConfigError);
  EXPECT_THROW(open_text(write(folder, "abc"), 3, 1), core::ConfigError);
  EXPECT_NO_THROW(open_text(write(folder, "abcd"), 3, 1));
  EXPECT_THROW(open_text(folder.path() / "missing", 3, 1), core::ConfigError);
  EXPECT_THROW(open_text(folder.path(), 3, 1), core::ConfigError);
}

TEST(LlmcTokens, ReadTheirFormat) {
  const TemporaryFolder folder;
  const auto source =
      open_llmc_bin(write(folder, llmc(20240520, 1, 5, {50256, 1, 2, 3, 4})), 2, 1, 50257);
  EXPECT_EQ(read(*source, 0, 0, 1, 2).tokens, (std::vector<std::int32_t>{50256, 1}));
  EXPECT_EQ(read(*source, 1, 0, 1, 2).targets, (std::vector<std::int32_t>{3, 4}));
}

TEST(LlmcTokens, WrongHeadersAndTokensAreErrors) {
  const TemporaryFolder folder;
  const auto open = [&](const std::string& bytes) {
    return open_llmc_bin(write(folder, bytes), 2, 1, 100);
  };
  EXPECT_THROW(open("short"), core::ConfigError);
  EXPECT_THROW(open(llmc(1, 1, 5, {1, 2, 3, 4, 5})), core::ConfigError);
  EXPECT_THROW(open(llmc(20240520, 2, 5, {1, 2, 3, 4, 5})), core::ConfigError);
  EXPECT_THROW(open(llmc(20240520, 1, 6, {1, 2, 3, 4, 5})), core::ConfigError);
  EXPECT_THROW(open(llmc(20240520, 1, -1, {1, 2, 3, 4, 5})), core::ConfigError);
  const auto source = open(llmc(20240520, 1, 5, {1, 2, 300, 4, 5}));
  EXPECT_THROW(read(*source, 0, 0, 1, 2), core::ConfigError);
}

TEST(TokenArray, TargetsFollowTheirTokens) {
  const auto source = open_token_array(fixture("gpt_tokens.safetensors"), 256);
  const Batch batch = read(*source, 3, 2, 4, 32);
  for (std::size_t i = 0; i + 1 < 32; ++i) EXPECT_EQ(batch.targets[i], batch.tokens[i + 1]);
  EXPECT_THROW(open_token_array(fixture("gpt_tokens.safetensors"), 100), core::ConfigError);
  EXPECT_THROW(open_token_array(fixture("ops.safetensors"), 256), core::ConfigError);
}

}  // namespace
}  // namespace orrery::engine
