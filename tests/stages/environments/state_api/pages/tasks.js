const defaults = { tasks: [], archive: [], theme: "light" };
const show = () => {
  const text = document.createElement("input");
  text.id = "new"; text.placeholder = "New task";
  const add = () => { if (!text.value) return;
    state.tasks.push({ id: newId(), title: text.value, done: false, added: Date.now() }); save(); };
  row(text, put("button", "Add", "add", add));
  for (const task of state.tasks) row(
    put("button", task.done ? "Open" : "Done", "done-" + task.id, () => { task.done = !task.done; save(); }),
    put("button", "Delete", "delete-" + task.id, () => { state.tasks = state.tasks.filter((t) => t !== task);
      save(); }),
    put("span", task.title + (task.done ? ", done" : ""), "title-" + task.id));
};
