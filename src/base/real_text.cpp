#include "base/real_text.h"

#include <locale.h>
#include <stdlib.h>

namespace xc {

double real_from_text(const char* text, char** end) {
  static const locale_t c_locale = newlocale(LC_ALL_MASK, "C", nullptr);  // the process keeps it
  return strtod_l(text, end, c_locale);
}

}  // namespace xc
