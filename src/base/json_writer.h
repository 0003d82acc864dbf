#pragma once
// JSON (RFC 8259) written front to back. There is no document in memory: nothing allocates but what
// the text takes, and nothing when it is left (nlohmann::json does, in its destructor).

#include <string>
#include <string_view>
#include <type_traits>

namespace xc {

/// Keys and values in the order of the calls; whoever calls keeps to the grammar.
class JsonWriter {
 public:
  /// Elements on lines of their own, `indent` spaces a level; below 0 all is one line.
  explicit JsonWriter(int indent = -1) : indent_(indent) {}

  /// Of an object; its value is what is written next.
  JsonWriter& key(std::string_view name);
  /// `fields()` writes what is in it.
  template <class Fields>
  void object(Fields&& fields) {
    open('{');
    fields();
    close('}');
  }
  /// `elements()` writes what is in it.
  template <class Elements>
  void array(Elements&& elements) {
    open('[');
    elements();
    close(']');
  }
  /// `write(element)` for each of the list.
  template <class List, class Write>
  void array(const List& list, Write&& write) {
    open('[');
    for (const auto& element : list) write(element);
    close(']');
  }
  /// A number that JSON does not have is null, a byte that is no UTF-8 U+FFFD.
  template <class T>
  void value(const T& value) {
    if constexpr (std::is_same_v<T, bool>)
      literal(value ? "true" : "false");
    else if constexpr (std::is_integral_v<T>)
      literal(std::to_string(value));
    else if constexpr (std::is_floating_point_v<T>)
      real(value);
    else if constexpr (std::is_convertible_v<const T&, std::string_view>)
      text(value);
    else
      array(value, [this](const auto& element) { this->value(element); });
  }
  template <class T>
  void field(std::string_view name, const T& of) {
    key(name).value(of);
  }

  std::string take() { return std::move(out_); }

 private:
  void open(char bracket);
  void close(char bracket);
  void literal(std::string_view text);
  void real(double value);
  void text(std::string_view value);
  void begin_element();
  void quote(std::string_view text);
  void break_line();

  std::string out_;
  int indent_;
  size_t depth_ = 0;
  bool first_ = true;       ///< no element yet where the writer stands
  bool after_key_ = false;  ///< what comes next belongs to it
};

}  // namespace xc
