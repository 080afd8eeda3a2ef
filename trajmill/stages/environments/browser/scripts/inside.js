// Where the page of an iframe begins within the box of its element, and how large it is.
(holder) => {
  const style = getComputedStyle(holder);
  const left = parseFloat(style.paddingLeft), top = parseFloat(style.paddingTop);
  const width = holder.clientWidth - left - parseFloat(style.paddingRight);
  const height = holder.clientHeight - top - parseFloat(style.paddingBottom);
  return [holder.clientLeft + left, holder.clientTop + top, width, height];
}
