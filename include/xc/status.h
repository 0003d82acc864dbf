/* Status codes. The numbers are frozen; new codes are appended.
 *
 * Each line: when it is returned, and what the caller should do.
 */
#ifndef XC_STATUS_H
#define XC_STATUS_H

#include <xc/types.h>

enum {
  XC_OK = 0,
  /* An argument is wrong: a null or foreign handle, a shape, type or count that does not fit the
   * model, an option out of range. Fix the call; the message names the argument. */
  XC_INVALID_ARGUMENT = 1,
  /* No file, input, output, node, pass or option of that name. Check the spelling. */
  XC_NOT_FOUND = 2,
  /* The file or text is damaged, truncated or of another kind. Get it again, or convert it. */
  XC_FORMAT = 3,
  /* The file is well-formed, but its graph breaks the rules of an operator. Fix the exporter. */
  XC_INVALID_MODEL = 4,
  /* Valid, but not implemented here: an operator, version, type or feature. The message names it;
   * export the model another way or report it. */
  XC_UNSUPPORTED = 5,
  /* A limit would be exceeded; the message names it. Of a run it is max_memory_bytes (engine.h) or
   * what no run can hold; those on what a model file may ask for are fixed. */
  XC_LIMIT = 6,
  /* An allocation failed, or the host's allocator refused it. Free memory, then retry. */
  XC_OUT_OF_MEMORY = 7,
  /* The operating system refused to read, write or map. The message has its reason. */
  XC_IO = 8,
  /* The host cancelled the run. Nothing to do; the session stays usable. */
  XC_CANCELLED = 9,
  /* The run did not end within its timeout. The session stays usable. */
  XC_DEADLINE = 10,
  /* The object is in use in a way that excludes this call. Wait for the other call, then retry. */
  XC_BUSY = 11,
  /* A value read while running (an index, a size, a split) is out of range. Fix the input data. */
  XC_RANGE = 12,
  /* A defect of xc. Please report it with the message. */
  XC_INTERNAL = 13
};

#ifdef __cplusplus
extern "C" {
#endif

/* "INVALID_ARGUMENT" and so on; "UNKNOWN" for other numbers. Static storage. Any thread.
 * @since 0.1 @stability stable */
XC_API const char* xc_status_name(xc_status status);

/* What to do about a status, one sentence for a user. Static storage. Any thread.
 * @since 0.1 @stability stable */
XC_API const char* xc_status_advice(xc_status status);

#ifdef __cplusplus
}
#endif
#endif /* XC_STATUS_H */
