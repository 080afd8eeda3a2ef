const defaults = { cart: {}, orders: [], stock: { apple: 5, bread: 5, cheese: 5 } };
const show = () => {
  for (const name of Object.keys(state.stock)) row(
    put("button", "Buy " + name, "buy-" + name, () => { state.cart[name] = (state.cart[name] || 0) + 1; save(); }),
    put("button", "Return " + name, "return-" + name, () => { delete state.cart[name]; save(); }),
    put("span", (state.cart[name] || 0) + " in the cart", "count-" + name));
  row(put("button", "Order", "order", () => {
    state.orders.push({ id: newId(), items: state.cart }); state.cart = {}; save(); }),
    put("span", state.orders.length + " orders", "orders"));
};
