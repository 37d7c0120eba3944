#pragma once
// Physical quantities as types: mixing dimensions is a compile error.

#include <compare>
#include <cstdint>

namespace orrery::core {

/// A physical quantity: one double in base units (second, byte, floating-point operation), tagged
/// with its dimension s^Time · B^Data · flop^Work.
template <int Time, int Data, int Work>
struct Quantity {
  double value = 0.0;

  constexpr Quantity() = default;
  constexpr explicit Quantity(double in_base_units) : value(in_base_units) {}
  auto operator<=>(const Quantity&) const = default;

  constexpr Quantity& operator+=(Quantity other) {
    value += other.value;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value -= other.value;
    return *this;
  }
  constexpr Quantity& operator*=(double factor) {
    value *= factor;
    return *this;
  }
};

template <int T, int D, int W>
constexpr Quantity<T, D, W> operator+(Quantity<T, D, W> a, Quantity<T, D, W> b) {
  return Quantity<T, D, W>(a.value + b.value);
}
template <int T, int D, int W>
constexpr Quantity<T, D, W> operator-(Quantity<T, D, W> a, Quantity<T, D, W> b) {
  return Quantity<T, D, W>(a.value - b.value);
}
template <int T, int D, int W>
constexpr Quantity<T, D, W> operator*(Quantity<T, D, W> a, double factor) {
  return Quantity<T, D, W>(a.value * factor);
}
template <int T, int D, int W>
constexpr Quantity<T, D, W> operator*(double factor, Quantity<T, D, W> a) {
  return Quantity<T, D, W>(a.value * factor);
}
template <int T, int D, int W>
constexpr Quantity<T, D, W> operator/(Quantity<T, D, W> a, double divisor) {
  return Quantity<T, D, W>(a.value / divisor);
}
template <int T1, int D1, int W1, int T2, int D2, int W2>
constexpr Quantity<T1 + T2, D1 + D2, W1 + W2> operator*(Quantity<T1, D1, W1> a,
                                                        Quantity<T2, D2, W2> b) {
  return Quantity<T1 + T2, D1 + D2, W1 + W2>(a.value * b.value);
}
template <int T1, int D1, int W1, int T2, int D2, int W2>
constexpr Quantity<T1 - T2, D1 - D2, W1 - W2> operator/(Quantity<T1, D1, W1> a,
                                                        Quantity<T2, D2, W2> b) {
  return Quantity<T1 - T2, D1 - D2, W1 - W2>(a.value / b.value);
}
/// Ratio of two quantities of one dimension: a plain number.
template <int T, int D, int W>
constexpr double operator/(Quantity<T, D, W> a, Quantity<T, D, W> b) {
  return a.value / b.value;
}

using Seconds = Quantity<1, 0, 0>;
using Bytes = Quantity<0, 1, 0>;
using BytesPerSecond = Quantity<-1, 1, 0>;
using Flops = Quantity<0, 0, 1>;  ///< A count of operations; the rate is FlopsPerSecond.
using FlopsPerSecond = Quantity<-1, 0, 1>;

namespace literals {
constexpr Seconds operator""_s(long double v) { return Seconds(static_cast<double>(v)); }
constexpr Seconds operator""_ms(long double v) { return Seconds(static_cast<double>(v) * 1e-3); }
constexpr Seconds operator""_us(long double v) { return Seconds(static_cast<double>(v) * 1e-6); }
constexpr Bytes operator""_B(long double v) { return Bytes(static_cast<double>(v)); }
constexpr Bytes operator""_KB(long double v) { return Bytes(static_cast<double>(v) * 1e3); }
constexpr Bytes operator""_MB(long double v) { return Bytes(static_cast<double>(v) * 1e6); }
constexpr Bytes operator""_GB(long double v) { return Bytes(static_cast<double>(v) * 1e9); }
constexpr Bytes operator""_KiB(long double v) { return Bytes(static_cast<double>(v) * 1024.0); }
constexpr Bytes operator""_MiB(long double v) { return Bytes(static_cast<double>(v) * 1048576.0); }
constexpr Bytes operator""_GiB(long double v) {
  return Bytes(static_cast<double>(v) * 1073741824.0);
}
constexpr BytesPerSecond operator""_GBps(long double v) {
  return BytesPerSecond(static_cast<double>(v) * 1e9);
}
constexpr FlopsPerSecond operator""_TFLOPs(long double v) {
  return FlopsPerSecond(static_cast<double>(v) * 1e12);
}
}  // namespace literals

}  // namespace orrery::core
