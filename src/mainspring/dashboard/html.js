// The rendering library: Preact, its hooks, and htm templates.
import htm from "./vendor/htm.js";
import { h } from "./vendor/preact.js";

export const html = htm.bind(h);
export { Component, createContext, Fragment, render } from "./vendor/preact.js";
export {
  useCallback, useContext, useEffect, useId, useLayoutEffect, useMemo, useReducer, useRef, useState,
} from "./vendor/hooks.js";
