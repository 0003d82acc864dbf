#include "arrays.h"

#include <nanobind/ndarray.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "dtypes.h"
#include "errors.h"
#define XC_LOADS_NUMPY
#include "numpy_api.h"

namespace xc_python {
namespace {

static_assert(sizeof(npy_intp) == sizeof(int64_t), "NumPy's dims are passed on as they are");

/// "input 'x'".
std::string place_of(const char* what, const char* name) {
  return name ? std::string(what) + " '" + name + "'" : what;
}

/// After an import that did not succeed, and that does not tell why: asked once more, the exporter
/// may.
[[noreturn]] void fail_import(const char* what, nb::handle value, const char* name) {
  PyObject* capsule = PyObject_CallMethod(value.ptr(), "__dlpack__", nullptr);
  if (capsule) {
    Py_DECREF(capsule);
    fail(XC_INVALID_ARGUMENT, "the object's DLPack export is no tensor of the CPU, or is read-only",
         place_of(what, name));
  }
  nb::python_error error;
  const xcrt::Error told =
      failure(XC_INVALID_ARGUMENT, "the object's DLPack export failed: " + text_of(error),
              place_of(what, name));
  fail_with(told, std::move(error));
}

nb::object steal(PyObject* object) {
  if (!object) nb::raise_python_error();
  return nb::steal<nb::object>(object);
}

nb::object make_array(nb::handle from, PyArray_Descr* type, int flags = 0) {
  return steal(PyArray_FromAny(from.ptr(), type, 0, 0, NPY_ARRAY_CARRAY_RO | flags, nullptr));
}

PyArrayObject* array_of(const nb::object& array) {
  return reinterpret_cast<PyArrayObject*>(array.ptr());
}

std::string over_the_limit(size_t rank) {
  return "rank " + std::to_string(rank) + " is over the limit of " +
         std::to_string(Inputs::kMaxRank);
}

/// "object", "<U3", "float64".
std::string dtype_text(PyArrayObject* array) {
  return nb::str(nb::handle(reinterpret_cast<PyObject*>(PyArray_DESCR(array)))).c_str();
}

/// Whether an object says itself of what type its elements are: arrays, series and tables of other
/// libraries. NumPy's scalars do not count: they stand in lists like numbers of Python.
bool is_array_like(nb::handle value) {
  if (PyArray_IsScalar(value.ptr(), Generic)) return false;
  for (const char* name : {"__array__", "__array_interface__", "__array_struct__"})
    if (PyObject_HasAttrString(value.ptr(), name)) return true;
  return false;
}

bool all_numbers(PyArrayObject* objects) {
  auto** slots = static_cast<PyObject**>(PyArray_DATA(objects));
  return std::all_of(slots, slots + PyArray_SIZE(objects),
                     [](PyObject* item) { return item && PyNumber_Check(item); });
}

/// Whether numbers of Python may be meant for a type: integers for any but bool, which takes 0 and
/// 1 (has_values()), reals for no integers. Objects (large integers, decimals) are looked at later.
bool may_become(PyArrayObject* given, xc_dtype wanted) {
  if (PyArray_SIZE(given) == 0) return true;  // NumPy knows no type of them
  if (PyArray_TYPE(given) == NPY_OBJECT) return all_numbers(given);
  const int from = number_class(dtype_of_number(PyArray_TYPE(given)));
  return from >= 0 && std::max(from, 1) <= std::max(number_class(wanted), 1);
}

bool same_elements(const nb::object& a, const nb::object& b) {
  const nb::object same = steal(PyObject_RichCompare(a.ptr(), b.ptr(), Py_EQ));
  return PyObject_IsTrue(nb::object(same.attr("all")()).ptr()) == 1;
}

/// Whether an array converted to a type still has the values that were given: integers all of
/// them, reals up to rounding.
bool has_values(const nb::object& converted, const nb::object& given, xc_dtype wanted) {
  const auto as = [](const nb::object& array, int number) {
    return make_array(array, PyArray_DescrFromType(number), NPY_ARRAY_FORCECAST);
  };
  const bool exact = number_class(wanted) <= 1;
  if (exact && !same_elements(as(converted, PyArray_TYPE(array_of(given))), given)) return false;
  const nb::object before = as(given, NPY_CDOUBLE), after = as(converted, NPY_CDOUBLE);
  const auto* from = static_cast<const double*>(PyArray_DATA(array_of(before)));
  const auto* to = static_cast<const double*>(PyArray_DATA(array_of(after)));
  return std::equal(from, from + 2 * PyArray_SIZE(array_of(before)), to, [&](double a, double b) {
    if (exact) return (a < 0) == (b < 0);  // what wraps around comes back the same
    return !std::isfinite(a) || std::isfinite(b);
  });
}

void release_tensor(PyObject* capsule) {
  xc_tensor_release(static_cast<xc_tensor*>(PyCapsule_GetPointer(capsule, nullptr)));
}

/// Objects of texts. Labels are few and come again and again: of each hash the latest is kept.
class Texts {
 public:
  /// A new reference.
  PyObject* object(std::string_view text) {
    Kept& kept = kept_[std::hash<std::string_view>()(text) % kept_.size()];
    if (!kept.object || kept.text != text) kept = {text, str_of_text(text)};
    return Py_NewRef(kept.object.ptr());
  }

 private:
  struct Kept {
    std::string_view text;
    nb::object object;
  };
  std::array<Kept, 128> kept_;
};

nb::object strings_to_numpy(const xcrt::Tensor& tensor) {
  const xcrt::Dims dims = tensor.dims();
  nb::object out = steal(PyArray_SimpleNew(static_cast<int>(dims.size()),
                                           const_cast<npy_intp*>(dims.data()), NPY_OBJECT));
  auto* slots = static_cast<PyObject**>(PyArray_DATA(reinterpret_cast<PyArrayObject*>(out.ptr())));
  Texts texts;
  for (const std::string_view text : tensor.strings()) {
    Py_XSETREF(*slots, texts.object(text));
    ++slots;
  }
  return out;
}

}  // namespace

void import_numpy() {
  if (_import_array() < 0) nb::raise_python_error();
}

Inputs::Inputs(size_t count, const char* what) : count_(count), what_(what) {
  if (count <= kInline) {
    views_ = inline_views_.data();
    strides_ = inline_strides_.data();
    owners_ = inline_owners_.data();
  } else {
    heap_views_.resize(count);
    heap_strides_.resize(count * kMaxRank);
    heap_owners_.resize(count);
    views_ = heap_views_.data();
    strides_ = heap_strides_.data();
    owners_ = heap_owners_.data();
  }
}

std::vector<nb::object> Inputs::release_owners() {
  return {std::make_move_iterator(owners_), std::make_move_iterator(owners_ + count_)};
}

void Inputs::set(size_t index, nb::handle value, xc_dtype wanted, const char* name, Use use) {
  if (PyArray_Check(value.ptr())) return set_array(index, value, wanted, name, use);
  if (value.is_none()) {
    views_[index] = {};
    return;
  }
  if (PyObject_HasAttrString(value.ptr(), "__dlpack__"))
    return use == Use::kWritten ? set_dlpack<nb::ndarray<>>(index, value, name)
                                : set_dlpack<nb::ndarray<nb::ro>>(index, value, name);
  if (use == Use::kWritten)
    fail(XC_INVALID_ARGUMENT, "results go into NumPy arrays or DLPack objects",
         place_of(what_, name));
  if (use != Use::kOnce)
    fail(XC_INVALID_ARGUMENT, "a prepared call binds NumPy arrays or DLPack objects",
         place_of(what_, name));
  set_array(index, is_array_like(value) ? made_of(value, name) : of_list(value, wanted, name),
            wanted, name, Use::kOnce);
}

nb::object Inputs::made_of(nb::handle value, const char* name) const {
  try {
    return make_array(value, nullptr);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_ValueError) && !error.matches(PyExc_TypeError)) throw;
    const xcrt::Error told =
        failure(XC_INVALID_ARGUMENT, "NumPy makes no array of it: " + text_of(error),
                place_of(what_, name));
    fail_with(told, std::move(error));
  }
}

/// Scalars and nested lists: what NumPy makes of them, in the port's type where it can hold them.
nb::object Inputs::of_list(nb::handle value, xc_dtype wanted, const char* name) const {
  if (wanted == XC_DTYPE_STRING) return make_array(value, PyArray_DescrFromType(NPY_OBJECT));
  nb::object given = made_of(value, name);
  const int number = wanted == XC_DTYPE_UNDEFINED ? -1 : number_of_dtype(wanted);
  if (number < 0 || dtype_of_number(PyArray_TYPE(array_of(given))) == wanted) return given;
  if (!may_become(array_of(given), wanted))
    fail(XC_INVALID_ARGUMENT,
         "expected " + std::string(xc_dtype_name(wanted)) + ", got values of dtype " +
             dtype_text(array_of(given)),
         place_of(what_, name));
  nb::object converted = make_array(given, PyArray_DescrFromType(number), NPY_ARRAY_FORCECAST);
  if (!has_values(converted, given, wanted))
    fail(XC_INVALID_ARGUMENT,
         std::string("expected ") + xc_dtype_name(wanted) +
             ", which does not hold every value given",
         place_of(what_, name));
  return converted;
}

void Inputs::set_array(size_t index, nb::handle value, xc_dtype wanted, const char* name, Use use) {
  const bool in_place = use != Use::kOnce;
  auto* array = reinterpret_cast<PyArrayObject*>(value.ptr());
  const int number = PyArray_TYPE(array);
  const xc_dtype dtype = dtype_of_number(number);
  const auto rank = static_cast<size_t>(PyArray_NDIM(array));
  if (dtype == XC_DTYPE_UNDEFINED)
    fail(XC_INVALID_ARGUMENT,
         "no tensor holds elements of dtype " + dtype_text(array) + conversion_of(value, wanted),
         place_of(what_, name));
  if (rank > kMaxRank) fail(XC_LIMIT, over_the_limit(rank), place_of(what_, name));
  if (dtype == XC_DTYPE_STRING) {
    if (wanted != XC_DTYPE_UNDEFINED && wanted != XC_DTYPE_STRING)
      fail(XC_INVALID_ARGUMENT,
           "expected " + std::string(xc_dtype_name(wanted)) + ", got an array of dtype " +
               dtype_text(array) + conversion_of(value, wanted),
           place_of(what_, name));
    if (use == Use::kWritten) fail(XC_UNSUPPORTED, "texts go into no array", place_of(what_, name));
    if (in_place) fail(XC_UNSUPPORTED, "a prepared call takes no strings", place_of(what_, name));
    return set_strings(index, value);
  }
  if (use == Use::kWritten && !PyArray_ISWRITEABLE(array))
    fail(XC_INVALID_ARGUMENT, "the array is read-only", place_of(what_, name));

  xc_tensor_view& view = views_[index];
  if (const int wide = number_of_bytes(dtype); wide >= 0 && use != Use::kWritten) {
    // ml_dtypes leaves the upper bits of a byte as it likes; in a tensor they belong to the number.
    if (in_place)
      fail(XC_UNSUPPORTED, "a prepared call takes no int4, int2, uint4 or uint2",
           place_of(what_, name));
    const nb::object bytes = make_array(value, PyArray_DescrFromType(wide), NPY_ARRAY_FORCECAST);
    set_array(index, bytes, XC_DTYPE_UNDEFINED, name, Use::kOnce);
    view.dtype = dtype;
    return;
  }
  const int flags = PyArray_FLAGS(array);
  const bool native = PyArray_ISNOTSWAPPED(array) && (flags & NPY_ARRAY_ALIGNED);
  if (native && (flags & NPY_ARRAY_C_CONTIGUOUS)) {
    view = {PyArray_DATA(array), reinterpret_cast<const int64_t*>(PyArray_DIMS(array)), nullptr,
            dtype, static_cast<uint32_t>(rank)};
    keep(index, nb::borrow(value));
    return;
  }
  if (use == Use::kWritten)
    fail(XC_INVALID_ARGUMENT, "results go into C-contiguous, aligned arrays",
         place_of(what_, name));
  const npy_intp size = PyArray_ITEMSIZE(array);
  bool whole = native;
  for (size_t axis = 0; axis < rank && whole; ++axis) {
    const npy_intp stride = PyArray_STRIDES(array)[axis];
    whole = stride % size == 0;
    room(index)[axis] = stride / size;
  }
  if (whole) {
    view = {PyArray_DATA(array), reinterpret_cast<const int64_t*>(PyArray_DIMS(array)), room(index),
            dtype, static_cast<uint32_t>(rank)};
    keep(index, nb::borrow(value));
    return;
  }
  if (in_place)
    fail(XC_INVALID_ARGUMENT, "a prepared call reads aligned arrays in the byte order of the host",
         place_of(what_, name));
  // Swapped bytes, or fields of records: a copy.
  const nb::object copy = make_array(value, PyArray_DescrFromType(number), NPY_ARRAY_NOTSWAPPED);
  set_array(index, copy, wanted, name, Use::kOnce);
}

void Inputs::set_strings(size_t index, nb::handle value) {
  // As an object array in row-major order; elements may be str, bytes or what str() makes a text
  // of.
  const nb::object objects =
      make_array(value, PyArray_DescrFromType(NPY_OBJECT), NPY_ARRAY_FORCECAST);
  auto* array = reinterpret_cast<PyArrayObject*>(objects.ptr());
  const npy_intp count = PyArray_SIZE(array);
  auto** slots = static_cast<PyObject**>(PyArray_DATA(array));
  std::vector<std::string_view> texts;
  std::vector<nb::object> made;  // that texts are in: of ASCII they are in the elements
  for (npy_intp i = 0; i < count; ++i) {
    nb::object item = nb::borrow(slots[i] ? slots[i] : Py_None);
    if (!PyUnicode_Check(item.ptr()) && !PyBytes_Check(item.ptr()))
      made.push_back(item = nb::str(item));
    if (PyUnicode_Check(item.ptr()) && PyUnicode_IS_ASCII(item.ptr())) {
      texts.emplace_back(static_cast<const char*>(PyUnicode_DATA(item.ptr())),
                         static_cast<size_t>(PyUnicode_GET_LENGTH(item.ptr())));
      continue;
    }
    if (PyUnicode_Check(item.ptr()))
      made.push_back(item =
                         steal(PyUnicode_AsEncodedString(item.ptr(), "utf-8", "surrogateescape")));
    char* data = nullptr;
    Py_ssize_t size = 0;
    if (PyBytes_AsStringAndSize(item.ptr(), &data, &size) < 0) nb::raise_python_error();
    texts.emplace_back(data, static_cast<size_t>(size));
  }
  xcrt::Tensor tensor(XC_DTYPE_STRING,
                      xcrt::Dims(reinterpret_cast<const int64_t*>(PyArray_DIMS(array)),
                                 static_cast<size_t>(PyArray_NDIM(array))));
  tensor.set_strings(texts);
  set_tensor(index, std::move(tensor));
}

void Inputs::set_tensor(size_t index, xcrt::Tensor tensor) {
  views_[index] = {};
  if (!tensor) return;
  views_[index] = tensor.view();
  tensors_.push_back(std::move(tensor));
}

template <class Array>
void Inputs::set_dlpack(size_t index, nb::handle value, const char* name) {
  Array array;
  if (!nb::try_cast(value, array)) fail_import(what_, value, name);
  if (array.device_type() != nb::device::cpu::value)
    fail(XC_UNSUPPORTED, "the array is on another device: move it to the CPU",
         place_of(what_, name));
  const xc_dtype dtype = dtype_of_dlpack(array.dtype());
  if (dtype == XC_DTYPE_UNDEFINED)
    fail(XC_UNSUPPORTED, "this DLPack element type is not supported", place_of(what_, name));
  if (array.ndim() > kMaxRank) fail(XC_LIMIT, over_the_limit(array.ndim()), place_of(what_, name));
  if (copied_dims_.capacity() == 0) copied_dims_.reserve(count_ * kMaxRank);
  const size_t first = copied_dims_.size();
  for (size_t axis = 0; axis < array.ndim(); ++axis) {
    copied_dims_.push_back(static_cast<int64_t>(array.shape(axis)));
    room(index)[axis] = array.stride(axis);
  }
  views_[index] = {const_cast<void*>(array.data()), copied_dims_.data() + first, room(index), dtype,
                   static_cast<uint32_t>(array.ndim())};
  // The array itself: it may be a temporary of its exporter, which `value` does not keep.
  keep(index, nb::capsule(new Array(std::move(array)),
                          [](void* held) noexcept { delete static_cast<Array*>(held); }));
}

xcrt::Tensor copy_of(const xc_tensor_view& view) {
  xcrt::Tensor out(view.dtype, {view.dims, view.rank});
  const auto bytes = static_cast<size_t>(out.size() * xc_dtype_size(view.dtype));
  xcrt::Tensor::wrap(view, nullptr, nullptr).copy_out({static_cast<std::byte*>(out.data()), bytes});
  return out;
}

xcrt::Tensor tensor_of(nb::handle value, xc_dtype wanted, const char* what, const char* name) {
  Inputs one(1, what);
  one.set(0, value, wanted, name);
  const xc_tensor_view& view = one.views()[0];
  if (view.dtype == XC_DTYPE_UNDEFINED)
    fail(XC_INVALID_ARGUMENT, "None is no array", place_of(what, name));
  return view.dtype == XC_DTYPE_STRING ? one.release_tensor() : copy_of(view);
}

nb::object to_numpy(xcrt::Tensor tensor) {
  const xc_dtype dtype = tensor.dtype();
  if (dtype == XC_DTYPE_STRING) return strings_to_numpy(tensor);
  const int number = number_of_dtype(dtype);
  if (number < 0) {
    fail(XC_UNSUPPORTED, std::string("an output has type ") + xc_dtype_name(dtype) +
                             ", for which the package ml_dtypes is needed (pip install ml_dtypes)");
  }
  const xcrt::Dims dims = tensor.dims();
  nb::object out = steal(PyArray_NewFromDescr(
      &PyArray_Type, PyArray_DescrFromType(number), static_cast<int>(dims.size()),
      reinterpret_cast<npy_intp*>(const_cast<int64_t*>(dims.data())), nullptr, tensor.data(),
      NPY_ARRAY_CARRAY, nullptr));
  PyObject* owner = PyCapsule_New(tensor.handle(), nullptr, &release_tensor);
  if (!owner) nb::raise_python_error();
  (void)tensor.release();  // the capsule's from here on
  if (PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(out.ptr()), owner) < 0)
    nb::raise_python_error();
  return out;
}

nb::object str_of_text(std::string_view text) {
  return steal(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape"));
}

std::optional<bool> bool_of(nb::handle value) {
  if (PyBool_Check(value.ptr())) return value.ptr() == Py_True;
  if (PyArray_IsScalar(value.ptr(), Bool)) return PyObject_IsTrue(value.ptr()) == 1;
  return std::nullopt;
}

std::string conversion_of(nb::handle value, xc_dtype wanted) {
  const nb::object type = numpy_dtype(wanted);
  if (type.is_none()) return {};
  const std::string name = nb::str(type).c_str();
  return PyObject_HasAttrString(value.ptr(), "astype")
             ? ": convert it with astype(\"" + name + "\")"
             : ": convert it to " + name;
}

}  // namespace xc_python
