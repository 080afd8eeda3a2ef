// Begins an episode; returns its instruction and, if the page gives them, its fields.
//
// The page's own reward display would widen the page and show the outcome to the agent. The page's own limit of ten
// seconds would end slow episodes; here only actions let time pass.
(seed) => {
  Math.seedrandom(String(seed));
  core.EPISODE_MAX_TIME = 3600000;
  document.getElementById("reward-display").style.display = "none";
  core.startEpisodeReal();
  window.scrollTo(0, 0);
  const goal = core.getUtterance();
  return typeof goal === "string" ? { utterance: goal, fields: null } : goal;
}
