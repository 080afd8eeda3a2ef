// The state machine of a phone or desktop: what each press, key and text does, without drawing anything.
"use strict";

const LONGEST_INPUT = 200;
/** An offset below the end of every page. */
const END = 1000000;
const OFFER = {
  title: "Try Plus for free",
  text: "One month on us, then 4.99 a month.",
  buttons: ["Close", "Learn more"],
};

/** What an app remembers when it starts: its variables and scalar state, and the lists of its state. */
class Store {
  constructor(app) {
    this.values = new Map(Object.entries(app.variables));
    this.lists = new Map();
    for (const [name, value] of Object.entries(app.state))
      (Array.isArray(value) ? this.lists : this.values).set(name, value);
  }

  /** Applies effects in order; `item` is the one that was picked. */
  apply(effects, app, item) {
    for (const effect of effects) {
      if ("set" in effect) this.assign(bindRecord(effect.set, this.values, item));
      else if ("reset" in effect) {
        const start = new Store(app).values;
        for (const name of effect.reset) this.values.set(name, start.get(name));
      } else if ("append" in effect) {
        for (const [name, record] of Object.entries(effect.append))
          this.append(name, bindRecord(record, this.values, item));
      } else if ("update" in effect) {
        const fields = bindRecord(effect.fields, this.values, item);
        const wanted = bind(effect.name, this.values, item);
        this.change(effect.update, (record) => [isNamed(record, wanted) ? { ...record, ...fields } : record]);
      } else {
        const wanted = bind(effect.name, this.values, item);
        this.change(effect.remove, (record) => (isNamed(record, wanted) ? [] : [record]));
      }
    }
  }

  assign(values) {
    for (const [name, value] of Object.entries(values)) this.values.set(name, value);
  }

  append(name, record) {
    this.lists.set(name, [...this.lists.get(name), record]);
  }

  change(name, become) {
    this.lists.set(name, this.lists.get(name).flatMap(become));
  }
}

const isNamed = (record, name) => isOwn(record, "name") && same(record.name, name);

class Device {
  /**
   * @param world what the compiler wrote: apps and device profiles.
   * @param start platform, profile (number), setup ([app, list, record] to append), without ([app, list, name] of an
   *   item to remove) and surprises ("", "rating" or "sponsored" for each time that an app is opened).
   */
  constructor(world, start) {
    this.world = world;
    this.platform = start.platform;
    this.profile = world.profiles[start.profile];
    this.surprises = [...start.surprises];
    this.foreground = "";
    this.focus = "";
    this.replaces = false;
    this.menu = "";
    this.launcher = { screen: "", offset: 0 };
    this.running = new Map();
    for (const [app, list, record] of start.setup) this.runningApp(app).store.append(list, record);
    for (const [app, list, name] of start.without) {
      const running = this.runningApp(app);
      running.store.lists.set(list, this.listOf(running, list).filter((item) => !isNamed(item, name)));
    }
  }

  get onPhone() {
    return this.platform === "phone";
  }

  /** The app on the screen, null on the launcher. */
  get front() {
    return this.foreground ? this.running.get(this.foreground) : null;
  }

  runningApp(name) {
    if (!this.running.has(name)) {
      const app = this.world.apps[name];
      const stack = [{ screen: app.first, offset: app.screens[app.first].from_end ? END : 0 }];
      this.running.set(name, { app, store: new Store(app), stack, popup: null, sponsored: false });
    }
    return this.running.get(name);
  }

  /** Fixed lists in the order of this device, and the lists of the state. */
  listOf(running, name) {
    if (running.store.lists.has(name)) return running.store.lists.get(name);
    const items = running.app.lists[name];
    return this.profile.lists[running.app.app][name].map((index) => items[index]);
  }

  /** The items that a list shows, after its filter and its search. */
  itemsOf(running, widget) {
    const values = running.store.values;
    const wanted = Object.entries(bindRecord(widget.where, values));
    let items = this.listOf(running, widget.items);
    items = items.filter((item) => wanted.every(([field, value]) => isOwn(item, field) && same(item[field], value)));
    const search = widget.search ? values.get(widget.search) : "";
    if (!search) return items;
    const text = shown(search).toLowerCase();
    return items.filter((item) => shown(isOwn(item, "name") ? item.name : "").toLowerCase().includes(text));
  }

  isDialog(running) {
    return running.stack.length > 1 && running.app.screens[running.stack.at(-1).screen].dialog;
  }

  /** Does what a press means; null for a place that does not react. */
  press(target) {
    if (this.menu && (target === null || target.act !== "menu")) this.menu = "";
    if (target === null) return;
    if (target.act !== "focus") this.focus = "";
    this.act(target);
  }

  open(name) {
    const running = this.runningApp(name);
    this.leave();
    this.foreground = name;
    const surprise = this.surprises.shift() ?? "";
    running.sponsored = surprise === "sponsored";
    if (surprise === "rating") {
      const title = `Enjoying ${running.app.name}?`;
      running.popup = { title, text: "Rate this app with five stars.", buttons: ["Not now", "Rate"] };
    }
  }

  leave() {
    this.foreground = this.focus = this.menu = "";
  }

  /** Closes what lies on top: keyboard, menu, message, dialog, page, app. */
  back() {
    const running = this.front;
    if (running === null) return;
    if (this.focus && this.onPhone) this.focus = "";
    else if (this.menu) this.menu = "";
    else if (running.popup) running.popup = null;
    else if (running.stack.length > 1) {
      running.stack.pop();
      this.focus = "";
    } else if (this.onPhone) this.leave();
  }

  /** Closes what lies over the page. */
  escape() {
    const running = this.front;
    if (running === null || !(this.focus || this.menu || running.popup || this.isDialog(running))) return;
    if (!this.onPhone) this.focus = "";
    this.back();
  }

  /** Puts the keyboard away; presses the button that the focused input names. */
  enter() {
    const running = this.front, screen = running?.app.screens[running.stack.at(-1).screen];
    const input = screen?.widgets.find((each) => isInput(each) && each.id === this.focus);
    const button = input?.enter ? screen.widgets.find((each) => each.id === input.enter) : null;
    this.focus = "";
    if (button && !isDisabled(button, running.store.values)) this.press({ act: "press", widget: button });
  }

  /** Presses a list item for long, or with the right button. */
  hold(target) {
    if (target?.act === "pick" && target.widget.hold) this.press({ ...target, act: "hold" });
  }

  /** Drags the knob of a slider from one of its marks to another. */
  drag(start, end) {
    if (start?.act !== "slide" || !same(this.front.store.values.get(start.widget.variable), start.value)) return false;
    if (end?.act === "slide" && end.widget === start.widget) this.press(end);
    return true;
  }

  /** Takes over what the focused input holds now. */
  typed(text) {
    const running = this.front;
    const screen = running.app.screens[running.stack.at(-1).screen];
    const input = screen.widgets.find((each) => isInput(each) && each.id === this.focus);
    if (!input) return;
    running.store.values.set(input.variable, [...text].slice(0, LONGEST_INPUT).join(""));
    this.replaces = false;
  }

  act(target) {
    if (target.act === "open") this.open(target.value);
    else if (target.act === "home") this.leave();
    else if (target.act === "back") this.back();
    else this.actInApp(target, this.front);
  }

  actInApp({ act, widget, value }, running) {
    const values = running.store.values;
    if (act === "dismiss") running.popup = null;
    else if (act === "offer") running.popup = OFFER;
    else if (act === "menu") this.menu = this.menu === widget.id ? "" : widget.id;
    else if (act === "focus") [this.focus, this.replaces] = [widget.id, true];
    else if (act === "flip") values.set(widget.variable, !values.get(widget.variable));
    else if (act === "choose" || act === "slide") values.set(widget.variable, value);
    else if (act === "step") {
      const number = Number(values.get(widget.variable)) + value;
      values.set(widget.variable, Math.min(Math.max(number, widget.minimum), widget.maximum));
    } else if (act === "press") {
      running.store.apply(widget.do, running.app, null);
      this.go(running, widget.to);
    } else if (act === "pick" || act === "hold") this.pick(running, widget, value, act === "hold");
  }

  pick(running, widget, name, held) {
    const named = (item) => same(isOwn(item, "name") ? item.name : "", name);
    const item = this.itemsOf(running, widget).find(named) ?? null;
    if (widget.variable && item !== null && isOwn(item, "name")) running.store.values.set(widget.variable, item.name);
    if (!held) running.store.apply(widget.do, running.app, item);
    this.go(running, held ? widget.hold : widget.to);
  }

  /** Shows a screen: an earlier one of the back stack again, or a new one; a dialog never stays behind. */
  go(running, to) {
    const stack = running.stack;
    if (!to) return;
    if (to === "back") {
      if (stack.length > 1) stack.pop();
      return;
    }
    const earlier = stack.findIndex((frame) => frame.screen === to);
    if (earlier >= 0) {
      stack.length = earlier + 1;
      return;
    }
    if (this.isDialog(running)) stack.pop();
    stack.push({ screen: to, offset: running.app.screens[to].from_end ? END : 0 });
  }

  /** All that the device remembers, as plain data: what goals are checked against. */
  state() {
    const plain = ({ store, stack, popup, sponsored }) => ({
      values: [...store.values],
      lists: [...store.lists],
      stack: stack.map((frame) => frame.screen),
      popup: popup ? popup.title : "",
      sponsored,
    });
    const apps = [...this.running].map(([name, running]) => [name, plain(running)]);
    return { foreground: this.foreground, focus: this.focus, menu: this.menu, apps };
  }
}

const isDisabled = (button, values) => button.needs.some((name) => ["", 0, false].includes(values.get(name)));
const isInput = (widget) => widget.kind === "field" || widget.kind === "search";
