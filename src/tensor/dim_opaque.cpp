#include "tensor/dim_opaque.h"

#include "tensor/dim_node.h"

namespace xc {

Dim with_opaque_functions(const Dim& d, std::map<std::string, Dim>& functions) {
  const Sum* const sum = DimAccess::sum(d);
  if (!sum) return d;
  Dim total;
  for (const auto& [monomial, factor] : *sum) {
    Dim product(factor);
    for (const AtomRef& atom : monomial.atoms) {
      const bool symbol = atom->kind == Atom::Kind::kSymbol;
      if (!symbol)
        functions.emplace(atom->key,
                          DimAccess::make({{Monomial{{atom}, product_text({atom})}, 1}}));
      product = product * Dim::symbol(atom->key, !symbol || atom->can_be_negative);
    }
    total = total + product;
  }
  return total;
}

}  // namespace xc
