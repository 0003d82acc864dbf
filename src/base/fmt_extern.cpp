#include "base/fmt_extern.h"

#ifdef XC_FMT_EXTERN
FMT_BEGIN_NAMESPACE
namespace detail {
#if FMT_VERSION >= 100000
template void vformat_to<char>(buffer<char>&, basic_string_view<char>,
                               typename vformat_args<char>::type, locale_ref);
#else
template void vformat_to<char>(buffer<char>&, basic_string_view<char>,
                               basic_format_args<buffer_context<char>>, locale_ref);
#endif
}  // namespace detail
FMT_END_NAMESPACE
#endif
