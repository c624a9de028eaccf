// Sets the theme before the first paint. The window's own code keeps it right afterwards (src/app/theme.ts).
(function () {
  var kept = null;
  try {
    kept = window.localStorage.getItem('sdf.theme');
  } catch (_unavailable) {
    kept = null;
  }
  var light = kept === 'light' || (kept === 'system' && window.matchMedia('(prefers-color-scheme: light)').matches);
  document.documentElement.setAttribute('data-theme', light ? 'light' : 'dark');
})();
