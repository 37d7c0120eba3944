#include "viz/palette.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace orrery::viz {

using core::SpanKind;

Colour colour_of(SpanKind kind) {
  switch (kind) {
    case SpanKind::Load:
      return {0xBB, 0xBB, 0xBB};
    case SpanKind::Forward:
    case SpanKind::Recompute:
      return {0x00, 0x72, 0xB2};
    case SpanKind::Backward:
      return {0x56, 0xB4, 0xE9};
    case SpanKind::WeightGrad:
      return {0x00, 0x9E, 0x73};
    case SpanKind::OptimizerStep:
      return {0xE6, 0x9F, 0x00};
    case SpanKind::TensorCommunication:
      return {0xCC, 0x79, 0xA7};
    case SpanKind::ContextCommunication:
      return {0x99, 0x99, 0x33};
    case SpanKind::ExpertCommunication:
      return {0x88, 0x22, 0x55};
    case SpanKind::PipelineCommunication:
      return {0xF0, 0xE4, 0x42};
    case SpanKind::ParameterGather:
      return {0xEE, 0x88, 0x66};
    case SpanKind::DataCommunication:
      return {0xD5, 0x5E, 0x00};
    case SpanKind::ParameterServer:
      return {0xAA, 0x44, 0x99};
    case SpanKind::Serve:
      return {0xDD, 0xCC, 0x77};
  }
  ORRERY_CHECK(false, "no such span kind");
}

std::string_view short_name(SpanKind kind) {
  switch (kind) {
    case SpanKind::Load:
      return "L";
    case SpanKind::Forward:
      return "F";
    case SpanKind::Recompute:
      return "R";
    case SpanKind::Backward:
      return "B";
    case SpanKind::WeightGrad:
      return "W";
    case SpanKind::OptimizerStep:
      return "O";
    case SpanKind::TensorCommunication:
      return "TP";
    case SpanKind::ContextCommunication:
      return "CP";
    case SpanKind::ExpertCommunication:
      return "EP";
    case SpanKind::PipelineCommunication:
      return "PP";
    case SpanKind::ParameterGather:
      return "AG";
    case SpanKind::DataCommunication:
      return "DP";
    case SpanKind::ParameterServer:
      return "PS";
    case SpanKind::Serve:
      return "S";
  }
  ORRERY_CHECK(false, "no such span kind");
}

namespace {

double linear(std::uint8_t channel) {
  const double c = channel / 255.0;
  return c <= 0.03928 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
}

double luminance(Colour c) {
  return 0.2126 * linear(c.red) + 0.7152 * linear(c.green) + 0.0722 * linear(c.blue);
}

}  // namespace

double contrast(Colour a, Colour b) {
  const double la = luminance(a);
  const double lb = luminance(b);
  return (std::max(la, lb) + 0.05) / (std::min(la, lb) + 0.05);
}

Colour text_on(Colour background) {
  const Colour black{0, 0, 0};
  const Colour white{255, 255, 255};
  return contrast(black, background) > contrast(white, background) ? black : white;
}

Colour mix(Colour a, Colour b, double share) {
  const auto channel = [share](std::uint8_t x, std::uint8_t y) {
    return static_cast<std::uint8_t>(std::lround(share * x + (1.0 - share) * y));
  };
  return {channel(a.red, b.red), channel(a.green, b.green), channel(a.blue, b.blue),
          channel(a.alpha, b.alpha)};
}

}  // namespace orrery::viz
